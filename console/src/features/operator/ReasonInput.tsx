import { t } from '@lingui/core/macro'
import { TextInput } from '@mantine/core'
import { Field } from '../../parts/FormFields.tsx'

/** Why an operator changes something. @param props.reader who reads it */
export function ReasonInput({
  value,
  onChange,
  reader = t`The audit log keeps it.`,
  maxLength = 200,
  ...props
}: {
  value: string
  onChange: (reason: string) => void
  reader?: string | undefined
  maxLength?: number
  'data-autofocus'?: boolean
}) {
  return (
    <Field name="reason">
      <TextInput
        label={t`Reason`}
        description={reader}
        required
        maxLength={maxLength}
        value={value}
        onChange={event => onChange(event.currentTarget.value)}
        {...props}
      />
    </Field>
  )
}
