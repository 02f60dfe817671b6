import { TextInput, type TextInputProps } from '@mantine/core'
import { amountProblem } from '../format/typed-number.ts'

/**
 * A field for an amount with decimals. Its form cannot be sent while the amount has two meanings. Read it with
 * `readAmount`.
 */
export function AmountField({
  error,
  onText,
  ...props
}: Omit<TextInputProps, 'onChange' | 'value' | 'inputMode'> & {
  value: string
  onText: (text: string) => void
}) {
  const problem = amountProblem(props.value)
  return (
    <TextInput
      {...props}
      inputMode="decimal"
      error={problem ?? error}
      ref={element => element?.setCustomValidity(problem ?? '')}
      onChange={event => onText(event.currentTarget.value)}
    />
  )
}
