import { t } from '@lingui/core/macro'
import { TextInput } from '@mantine/core'

/** Why an operator changes something. */
export function ReasonInput({ value, onChange }: { value: string; onChange: (reason: string) => void }) {
  return (
    <TextInput
      label={t`Reason`}
      description={t`The audit log keeps it.`}
      required
      maxLength={200}
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}
