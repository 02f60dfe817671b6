import { t } from '@lingui/core/macro'
import { Select } from '@mantine/core'
import type { RoleChoice } from './InviteDialog.tsx'

/** Changes the role of a member. Nobody becomes an owner here: a person must accept that, by an invitation. */
export function RoleSelect({
  email,
  role,
  roles,
  onChange,
}: {
  email: string
  role: string
  roles: readonly RoleChoice[]
  onChange: (role: string) => void
}) {
  return (
    <Select
      aria-label={t`Role of ${email}`}
      data={role === 'owner' ? [...roles] : roles.filter(({ value }) => value !== 'owner')}
      value={role}
      onChange={value => value !== null && value !== role && onChange(value)}
    />
  )
}
