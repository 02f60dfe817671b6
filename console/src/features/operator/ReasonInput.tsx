import { t } from '@lingui/core/macro'
import { TextInput } from '@mantine/core'
import { Field } from '../../parts/FormFields.tsx'

/** Why an operator changes something. */
export function ReasonInput({ value, onChange }: { value: string; onChange: (reason: string) => void }) {
  return (
    <Field name="reason">
      <TextInput
        label={t`Reason`}
        description={t`The audit log keeps it.`}
        required
        maxLength={200}
        value={value}
        onChange={event => onChange(event.currentTarget.value)}
      />
    </Field>
  )
}
