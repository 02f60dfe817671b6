import { t } from '@lingui/core/macro'
import { Button, Textarea } from '@mantine/core'
import { AmountField } from '../../parts/AmountField.tsx'
import type { ChatSetup } from './chat-setup.ts'
import styles from './playground.module.css'
import { exampleTools, readTools } from './read-tools.ts'

/** The system prompt, the parameters and the functions of a talk. */
export function ChatSettings({
  setup,
  onChange,
}: {
  setup: ChatSetup
  onChange: (change: Partial<ChatSetup>) => void
}) {
  const { tools, problem } = readTools(setup.tools)
  const field = (name: 'temperature' | 'topP' | 'maxTokens') => (
    <AmountField
      label={texts[name]}
      placeholder={texts.default}
      value={setup[name]}
      onText={text => onChange({ [name]: text })}
    />
  )
  return (
    <>
      <details className={styles.settings}>
        <summary>{texts.title}</summary>
        <Textarea
          label={texts.system}
          placeholder={texts.none}
          minRows={2}
          maxRows={8}
          value={setup.system}
          onChange={event => onChange({ system: event.currentTarget.value })}
        />
        <div className={styles.choices}>
          {field('temperature')}
          {field('topP')}
          {field('maxTokens')}
        </div>
      </details>
      <details className={styles.settings}>
        <summary>{tools.length === 0 ? texts.functions : `${texts.functions} (${tools.length})`}</summary>
        <p className={styles.hint}>{texts.how}</p>
        <Textarea
          label={texts.json}
          placeholder={texts.none}
          minRows={4}
          maxRows={16}
          spellCheck={false}
          error={problem}
          value={setup.tools}
          onChange={event => onChange({ tools: event.currentTarget.value })}
          classNames={{ input: styles.json ?? '' }}
        />
        {setup.tools.trim() === '' && (
          <div>
            <Button variant="default" onClick={() => onChange({ tools: exampleTools })}>
              {texts.example}
            </Button>
          </div>
        )}
      </details>
    </>
  )
}

const texts = {
  title: t`System prompt and parameters`,
  system: t`System prompt`,
  none: t`none`,
  default: t`default`,
  temperature: t`Temperature`,
  topP: t`Top p`,
  maxTokens: t`Most output tokens`,
  functions: t`Functions`,
  how: t`The model may call these. Nothing runs: the page shows the call, and you type what it returns.`,
  json: t`Functions as JSON`,
  example: t`Fill in an example`,
} as const
