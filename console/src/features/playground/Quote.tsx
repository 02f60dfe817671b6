import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { useDebouncedValue } from '@mantine/hooks'
import { useQuery } from '@tanstack/react-query'
import type { z } from 'zod'
import type { chatQuoteSchema } from '#api/chat-quote-schema.ts'
import { problemOf } from '../../api/request.ts'
import { sameSubject } from '../../api/same-subject.ts'
import { chargeText } from '../../format/usd-text.ts'
import styles from './playground.module.css'
import { withPlaygroundKey } from './playground-key.ts'

type ChatQuote = z.infer<typeof chatQuoteSchema>

const TYPING_MS = 400

/**
 * What the request would cost, and the server that would get it, while the person types.
 *
 * @param props.body of the chat request; null asks for no quote
 */
export function Quote({ customerId, body }: { customerId: string; body: object | null }) {
  const [text] = useDebouncedValue(body === null ? null : JSON.stringify(body), TYPING_MS)
  const queryKey = ['quote', customerId, { text }]
  const quote = useQuery({
    queryKey,
    queryFn: ({ signal }) => withPlaygroundKey(customerId, key => readQuote(key, text!, signal)),
    enabled: text !== null,
    placeholderData: sameSubject(queryKey),
    gcTime: 60_000,
  })
  return (
    <p className={styles.quote} aria-live="polite">
      {body !== null && quote.error !== null
        ? quote.error.message
        : body !== null && quote.data && quoteText(quote.data)}
    </p>
  )
}

async function readQuote(key: string, body: string, signal: AbortSignal): Promise<ChatQuote> {
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...(JSON.parse(body) as object), dry_run: true }),
  })
  if (!response.ok) throw await problemOf(response)
  return (await response.json()) as ChatQuote
}

function quoteText({ candidates, expected, worst_case_cost_usd: worst, refusal, max_tokens_clamped_by }: ChatQuote) {
  const first = candidates[0]
  if (first === undefined || expected === null || worst === null) {
    return refusal?.message ?? t`No server could serve this request.`
  }
  const clamp = max_tokens_clamped_by === 'max_cost_usd' ? t`, the answer shortened to that` : ''
  const server = first.hoster_name ?? first.endpoint
  return (
    <Trans>
      Quote: {server}, at most {chargeText(worst)} USD{clamp}, likely {chargeText(expected.cost_usd)} USD
    </Trans>
  )
}
