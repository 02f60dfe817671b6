import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Textarea } from '@mantine/core'
import { useState } from 'react'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import styles from './playground.module.css'
import type { ToolCall } from './stream-chat.ts'

/**
 * The functions that a model called, with the arguments. While it waits, the person types what each returned.
 *
 * @param props.results what was sent, in the order of the calls
 */
export function ToolCalls({
  calls,
  results,
  isWaiting,
  onResults,
}: {
  calls: readonly ToolCall[]
  results: readonly string[]
  isWaiting: boolean
  onResults: (results: readonly string[]) => void
}) {
  const [typed, setTyped] = useState<readonly string[]>([])
  const all = calls.map((_, index) => typed[index] ?? '')
  return (
    <form
      className={styles.calls}
      onSubmit={event => {
        event.preventDefault()
        onResults(all)
      }}
    >
      {calls.map(({ id, name, arguments: json }, index) => (
        <section key={id} className={styles.call} aria-label={t`Call of ${name}`}>
          <p>
            <Trans>
              Calls <code>{name}</code>
            </Trans>
          </p>
          <CodeBlock code={indented(json)} what={t`the arguments of ${name}`} />
          {!isJson(json) && <p className={styles.wrong}>{t`The arguments are not JSON.`}</p>}
          {isWaiting && (
            <Textarea
              label={t`Result of ${name}`}
              minRows={2}
              maxRows={8}
              value={all[index] ?? ''}
              onChange={event => setTyped(all.with(index, event.currentTarget.value))}
            />
          )}
          {!isWaiting && results[index] !== undefined && (
            <>
              <p>{t`Result`}</p>
              <CodeBlock code={results[index]} what={t`the result of ${name}`} />
            </>
          )}
        </section>
      ))}
      {isWaiting && (
        <div>
          <Button
            type="submit"
            variant="default"
            disabled={all.some(text => text.trim() === '')}
          >{t`Send the results`}</Button>
        </div>
      )}
    </form>
  )
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function indented(json: string): string {
  return isJson(json) ? JSON.stringify(JSON.parse(json), null, 2) : json
}
