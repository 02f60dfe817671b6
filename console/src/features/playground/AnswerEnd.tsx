import { t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { receiptQuery } from '../../api/queries.ts'
import { countText, durationText } from '../../format/number-text.ts'
import { chargeText } from '../../format/usd-text.ts'
import { Provider, type ProviderName } from '../../parts/Provider.tsx'
import styles from './playground.module.css'
import type { AnswerFacts } from './talk.ts'

/** What an answer cost, and how fast it was. */
export function AnswerEnd({ customerId, end }: { customerId: string; end: AnswerFacts }) {
  const { usage, requestId, provider, firstMs, elapsedMs, isStopped } = end
  const speed = tokensPerSecond(end)
  return (
    <>
      {isStopped && (
        <p className={styles.hint}>
          <span>{t`Stopped.`}</span>{' '}
          {requestId === null ? (
            <span>{t`The answer had not begun. Activity shows a charge, if there is one.`}</span>
          ) : (
            <Billed customerId={customerId} requestId={requestId} />
          )}
        </p>
      )}
      <dl className={styles.figures}>
        {usage && <Figure name={t`Cost`}>{chargeText(usage.cost_usd)} USD</Figure>}
        {usage && (
          <Figure name={t`Input and output`}>
            <Plural value={usage.total_tokens} one="# token" other="# tokens" />
          </Figure>
        )}
        {firstMs !== null && <Figure name={t`First token`}>{durationText(firstMs)}</Figure>}
        {elapsedMs > 0 && <Figure name={t`Total time`}>{durationText(elapsedMs)}</Figure>}
        {speed !== null && (
          <Figure name={t`Speed`}>
            <Trans>{countText(Math.round(speed))} tokens/s</Trans>
          </Figure>
        )}
        {provider !== null && (
          <Figure name={t`Server`}>
            <Provider kind={provider as ProviderName} />
          </Figure>
        )}
      </dl>
      {requestId !== null && (
        <p>
          <Link to="/c/$customerId/activity/$requestId" params={{ customerId, requestId }}>{t`receipt`}</Link>
        </p>
      )}
    </>
  )
}

function Figure({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

/** A shorter answer says nothing about speed: its tokens came in one piece. */
const SPEED_MS_MIN = 100

/** From the first token to the last. */
function tokensPerSecond({ usage, firstMs, elapsedMs }: AnswerFacts): number | null {
  if (usage === null || firstMs === null || elapsedMs - firstMs < SPEED_MS_MIN) return null
  return (usage.completion_tokens - 1) / ((elapsedMs - firstMs) / 1_000)
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
        <Trans>
          Billed {chargeText(receipt.data.cost_usd)} USD for{' '}
          <Plural value={input + output} one="# token" other="# tokens" />.
        </Trans>
      </span>
    )
  }
  return <span>{receipt.error === null ? t`Reading what was billed …` : t`The charge is not known yet.`}</span>
}
