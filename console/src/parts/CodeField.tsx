import { t } from '@lingui/core/macro'
import { TextInput } from '@mantine/core'

/** Asks for the code of an authenticator app, or for a recovery code. */
export function CodeField({ value, onChange }: { value: string; onChange: (code: string) => void }) {
  return (
    <TextInput
      label={t`Code`}
      description={t`From your authenticator app, or a recovery code.`}
      autoComplete="one-time-code"
      required
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}
