import { lazy, Suspense } from 'react'
import { fromGateway } from '../../api/gateway-link.ts'
import { Panel } from '../../parts/Panel.tsx'
import { AnswerEnd, type AnswerFacts } from './AnswerEnd.tsx'
import styles from './playground.module.css'

/** Loads with the first answer. */
const AnswerText = lazy(fromGateway(async () => ({ default: (await import('./AnswerText.tsx')).AnswerText })))

export interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: string
  /** Of an answer: the model that was asked. */
  readonly model?: string
  /** Of an answer that has ended. */
  readonly end?: AnswerFacts
}

/** The messages of a talk, with what each answer cost. */
export function Talk({
  customerId,
  messages,
  isRunning,
}: {
  customerId: string
  messages: readonly Message[]
  isRunning: boolean
}) {
  return (
    <Panel>
      <div className={styles.talk} aria-live="polite" aria-busy={isRunning}>
        {messages.length === 0 && (
          <p className={styles.hint}>
            What you send here is charged like any request. It uses a key of its own, which stops after 12 hours and
            spends at most 1 USD a day.
          </p>
        )}
        {messages.map(({ role, content, model, end }, index) => (
          <article key={index} className={styles.message} data-role={role}>
            <h3>{role === 'user' ? 'You' : model}</h3>
            {role === 'user' ? (
              <p className={styles.plain}>{content}</p>
            ) : (
              <Suspense fallback={<p className={styles.plain}>{content}</p>}>
                <AnswerText text={content} />
              </Suspense>
            )}
            {end && <AnswerEnd customerId={customerId} end={end} />}
          </article>
        ))}
      </div>
    </Panel>
  )
}
