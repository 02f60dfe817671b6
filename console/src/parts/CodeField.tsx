import { t } from '@lingui/core/macro'
import { TextInput } from '@mantine/core'

/** Asks for the code of an authenticator app, or for a recovery code. */
export function CodeField({
  description = t`From your authenticator app, or a recovery code.`,
  value,
  onChange,
}: {
  description?: string
  value: string
  onChange: (code: string) => void
}) {
  return (
    <TextInput
      label={t({ message: 'Code', context: 'second factor' })}
      description={description}
      autoComplete="one-time-code"
      required
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}
