import { Textarea } from '@mantine/core'
import { readAmount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import styles from './playground.module.css'

/** What a talk sends beside its messages. Texts stay as typed, so that the gateway refuses them in its own words. */
export interface ChatInput {
  readonly system: string
  readonly temperature: string
  readonly topP: string
  readonly maxTokens: string
}

export const noChatInput: ChatInput = { system: '', temperature: '', topP: '', maxTokens: '' }

/** The fields of the body that are filled in. */
export function parametersOf({ temperature, topP, maxTokens }: ChatInput) {
  return {
    ...(temperature.trim() !== '' && { temperature: numberOf(temperature) }),
    ...(topP.trim() !== '' && { top_p: numberOf(topP) }),
    ...(maxTokens.trim() !== '' && { max_tokens: numberOf(maxTokens) }),
  }
}

/** The system prompt and the parameters of a talk. */
export function ChatSettings({ input, onChange }: { input: ChatInput; onChange: (input: ChatInput) => void }) {
  const field = (name: Exclude<keyof ChatInput, 'system'>) => (
    <AmountField
      label={texts[name]}
      placeholder={texts.default}
      value={input[name]}
      onText={text => onChange({ ...input, [name]: text })}
    />
  )
  return (
    <details className={styles.settings}>
      <summary>{texts.title}</summary>
      <Textarea
        label={texts.system}
        placeholder={texts.none}
        minRows={2}
        maxRows={8}
        value={input.system}
        onChange={event => onChange({ ...input, system: event.currentTarget.value })}
      />
      <div className={styles.choices}>
        {field('temperature')}
        {field('topP')}
        {field('maxTokens')}
      </div>
    </details>
  )
}

/** Returns what is no number as it is. */
function numberOf(text: string): number | string {
  const number = Number(readAmount(text))
  return Number.isNaN(number) ? text : number
}

const texts = {
  title: 'System prompt and parameters',
  system: 'System prompt',
  none: 'none',
  default: 'default',
  temperature: 'Temperature',
  topP: 'Top p',
  maxTokens: 'Most output tokens',
} as const
