import { t } from '@lingui/core/macro'
import { lazy, Suspense, useEffect, useRef } from 'react'
import { fromGateway } from '../../api/gateway-link.ts'
import { Panel } from '../../parts/Panel.tsx'
import { ProblemBlock } from '../../parts/ProblemBlock.tsx'
import { AnswerEnd } from './AnswerEnd.tsx'
import styles from './playground.module.css'
import { ToolCalls } from './ToolCalls.tsx'
import { type Answer, type Step, type Turn, waitsForResults } from './talk.ts'

/** Loads with the first answer. */
const AnswerText = lazy(fromGateway(async () => ({ default: (await import('./AnswerText.tsx')).AnswerText })))

/** The messages of a talk, with what each answer cost. Several models answer side by side. */
export function Talk({
  customerId,
  turns,
  isRunning,
  onResults,
}: {
  customerId: string
  turns: readonly Turn[]
  isRunning: boolean
  onResults: (answer: Answer, results: readonly string[]) => void
}) {
  const last = useRef<HTMLDivElement>(null)
  // On a small screen the settings fill the page, and the answer would begin below what is seen.
  useEffect(() => {
    if (isRunning) last.current?.scrollIntoView({ block: 'start' })
  }, [isRunning, turns.length])
  return (
    <Panel>
      <div className={styles.talk} aria-live="polite" aria-busy={isRunning}>
        {turns.length === 0 && (
          <p
            className={styles.hint}
          >{t`What you send here is charged like any request. It uses a key of its own, which stops after 12 hours and spends at most 1 USD a day.`}</p>
        )}
        {turns.map(({ prompt, images, answers }, index) => (
          <div key={index} className={styles.turn} ref={index === turns.length - 1 ? last : null}>
            <article className={styles.message}>
              <h3>{t`You`}</h3>
              {prompt !== '' && <p className={styles.plain}>{prompt}</p>}
              <Images urls={images} />
            </article>
            <div className={styles.answers} data-count={answers.length}>
              {answers.map(answer => (
                <article key={answer.slot} className={styles.message}>
                  <h3>{answer.model}</h3>
                  {answer.steps.map((step, at) => (
                    <ShownStep
                      key={at}
                      customerId={customerId}
                      step={step}
                      isWaiting={
                        !isRunning &&
                        index === turns.length - 1 &&
                        at === answer.steps.length - 1 &&
                        waitsForResults(answer)
                      }
                      onResults={results => onResults(answer, results)}
                    />
                  ))}
                </article>
              ))}
            </div>
          </div>
        ))}
      </div>
    </Panel>
  )
}

function ShownStep({
  customerId,
  step: { text, reasoning, calls, results, end, problem },
  isWaiting,
  onResults,
}: {
  customerId: string
  step: Step
  isWaiting: boolean
  onResults: (results: readonly string[]) => void
}) {
  return (
    <>
      {reasoning !== '' && (
        <details className={styles.reasoning}>
          <summary>{t`Reasoning`}</summary>
          <p className={styles.plain}>{reasoning}</p>
        </details>
      )}
      {text !== '' && (
        <Suspense fallback={<p className={styles.plain}>{text}</p>}>
          <AnswerText text={text} />
        </Suspense>
      )}
      {calls.length > 0 && <ToolCalls calls={calls} results={results} isWaiting={isWaiting} onResults={onResults} />}
      {problem && <ProblemBlock error={problem} />}
      {end && <AnswerEnd customerId={customerId} end={end} />}
    </>
  )
}

/** They are data: URLs, which no server sees. */
export function Images({ urls, onRemove }: { urls: readonly string[]; onRemove?: (index: number) => void }) {
  if (urls.length === 0) return null
  return (
    <ul className={styles.images} aria-label={t`Images`}>
      {urls.map((url, index) => (
        <li key={index}>
          <img src={url} alt={t`Attached, number ${index + 1}`} />
          {onRemove && (
            <button type="button" aria-label={t`Remove image ${index + 1}`} onClick={() => onRemove(index)}>
              ×
            </button>
          )}
        </li>
      ))}
    </ul>
  )
}
