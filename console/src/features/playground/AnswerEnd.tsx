import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { receiptQuery } from '../../api/queries.ts'
import { durationText, plural } from '../../format/number-text.ts'
import { chargeText } from '../../format/usd-text.ts'
import { Provider, type ProviderName } from '../../parts/Provider.tsx'
import styles from './playground.module.css'
import type { ChatEnd } from './stream-chat.ts'

export interface AnswerFacts extends ChatEnd {
  readonly elapsedMs: number
  readonly isStopped: boolean
}

/** What an answer cost. */
export function AnswerEnd({ customerId, end }: { customerId: string; end: AnswerFacts }) {
  const { usage, requestId, provider, elapsedMs, isStopped } = end
  return (
    <p className={styles.end}>
      {isStopped && <span>Stopped.</span>}
      {isStopped && requestId === null && (
        <span>The answer had not begun. Activity shows a charge, if there is one.</span>
      )}
      {isStopped && requestId !== null && <Billed customerId={customerId} requestId={requestId} />}
      {usage && <span>{chargeText(usage.cost_usd)} USD</span>}
      {usage && <span>{plural(usage.total_tokens, 'token')}</span>}
      <span>{durationText(elapsedMs)}</span>
      {provider !== null && <Provider kind={provider as ProviderName} />}
      {requestId !== null && (
        <Link to="/c/$customerId/activity/$requestId" params={{ customerId, requestId }}>
          receipt
        </Link>
      )}
    </p>
  )
}

const RECEIPT_TRIES = 20
const RECEIPT_MS = 500

/** The charge of a stopped answer, which the gateway writes moments after the client has left. */
function Billed({ customerId, requestId }: { customerId: string; requestId: string }) {
  const receipt = useQuery({ ...receiptQuery(customerId, requestId), retry: RECEIPT_TRIES, retryDelay: RECEIPT_MS })
  if (receipt.data !== undefined) {
    const { input, output } = receipt.data.tokens.billed
    return (
      <span>
        Billed {chargeText(receipt.data.cost_usd)} USD for {plural(input + output, 'token')}.
      </span>
    )
  }
  return <span>{receipt.error === null ? 'Reading what was billed …' : 'The charge is not known yet.'}</span>
}
