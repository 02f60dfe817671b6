import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import type { RequestReceipt } from '#api/activity.ts'
import { durationText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { failureWords } from '../../parts/failure-words.ts'
import { Provider, type ProviderName } from '../../parts/Provider.tsx'
import { codeText } from '../../texts/code-text.ts'
import styles from './activity.module.css'
import { reasonWords } from './reason-words.ts'

type Candidate = RequestReceipt['candidates'][number]

/**
 * The servers as tracks behind points: one arrives, those that failed end in a buffer stop, those that were left out
 * are dashed.
 */
export function Tracks({ receipt }: { receipt: RequestReceipt }) {
  const { candidates, attempts, candidates_left_out: leftOut } = receipt
  if (candidates.length === 0 && attempts.length === 0) return <p>{t`No server offers this model.`}</p>
  return (
    <ul className={styles.tracks}>
      {candidates.map((candidate, index) => (
        <li key={index} className={styles.track}>
          <Track status={candidate.status} isFirst={index === 0} />
          <div className={styles.trackText} data-is-faint={candidate.status !== 'answered'}>
            <Provider
              kind={candidate.provider as ProviderName}
              label={candidate.hoster_name ?? candidate.endpoint ?? ''}
            />
            {candidate.model !== receipt.model && <span>{candidate.model}</span>}
            <span>{statusText(candidate, attempts)}</span>
          </div>
        </li>
      ))}
      {leftOut > 0 && (
        <li className={styles.hint}>
          <Trans>and {leftOut} more</Trans>
        </li>
      )}
    </ul>
  )
}

/** One line: the styles draw the one that joins them, which is as long as the text is high. */
function Track({ status, isFirst }: { status: Candidate['status']; isFirst: boolean }) {
  const color = status === 'answered' ? 'var(--ink)' : 'var(--control)'
  return (
    <svg viewBox="0 0 44 36" fill="none" aria-hidden="true" strokeWidth="2">
      {isFirst && <circle cx="6" cy="18" r="3" fill="var(--ink)" />}
      <path d="M6 18h30" stroke={color} {...(status === 'excluded' && { strokeDasharray: '3 4' })} />
      {status === 'answered' && <circle cx="38" cy="18" r="5" fill="var(--ok)" />}
      {status === 'failed' && <path d="M37 10v16M41 10v16" stroke="var(--danger)" />}
      {status === 'not_tried' && <circle cx="38" cy="18" r="4" stroke="var(--control)" fill="var(--surface)" />}
    </svg>
  )
}

function statusText(candidate: Candidate, attempts: RequestReceipt['attempts']): string {
  const attempt = attempts.find(
    each =>
      each.endpoint === candidate.endpoint && each.model === candidate.model && each.provider === candidate.provider,
  )
  const took = attempt === undefined ? '' : t` after ${durationText(attempt.elapsed_ms)}`
  const code = candidate.reason ?? ''
  const reason = failureWords[code] ?? reasonWords[code] ?? codeText(code)
  const expected =
    candidate.expected_cost_usd === null ? '' : t`, expected ${exactUsd(candidate.expected_cost_usd)} USD`
  switch (candidate.status) {
    case 'answered':
      return t`answered${took}${expected}`
    case 'failed':
      return t`failed${took}: ${reason}`
    case 'excluded':
      return t`not allowed: ${reason}`
    case 'not_tried':
      return t`not tried${reason === '' ? '' : `: ${reason}`}${expected}`
  }
}
