import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Drawer } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import type { RequestReceipt } from '#api/activity.ts'
import { receiptQuery } from '../../api/queries.ts'
import { countText, durationText } from '../../format/number-text.ts'
import { chargeText, exactUsd, signedUsd, sumUsd } from '../../format/usd-text.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { outcomeWords, servedText } from '../../parts/outcome-words.ts'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { useCustomerId, useSession } from '../../shell/use-session.ts'
import { codeText } from '../../texts/code-text.ts'
import styles from './activity.module.css'
import { chargeTerms } from './charge-terms.ts'
import { RecordedContent } from './RecordedContent.tsx'
import { Tracks } from './Tracks.tsx'

/** What one request cost and why: the tokens, the prices, the servers that were tried or left out, the ledger. */
export function Receipt() {
  const customerId = useCustomerId()
  const requestId = useParams({ strict: false }).requestId!
  const search = useSearch({ strict: false })
  const navigate = useNavigate()
  const receipt = useQuery(receiptQuery(customerId, requestId))
  const close = () => void navigate({ to: '/c/$customerId/activity', params: { customerId }, search })
  return (
    <Drawer opened onClose={close} title={t`Receipt`} closeButtonProps={{ 'aria-label': t`Close the receipt` }}>
      <Loaded query={receipt} height={480}>
        {data => <Body receipt={data} />}
      </Loaded>
    </Drawer>
  )
}

function Body({ receipt }: { receipt: RequestReceipt }) {
  const { tokens, ledger, refunds, policy, max_tokens_clamp: clamp } = receipt
  return (
    <div className={styles.receipt}>
      <section>
        <p className={styles.sum}>{chargeText(receipt.cost_usd)} USD</p>
        <p className={styles.hint}>{chargeTerms(receipt)}</p>
        <p className={styles.hint}>
          <Trans>At most {exactUsd(receipt.hold_usd)} USD was held before the request was sent.</Trans>
        </p>
      </section>
      <section>
        <h3>{t`Which servers`}</h3>
        <Tracks receipt={receipt} />
      </section>
      <Facts
        facts={{
          [t`Request`]: (
            <>
              <code>{receipt.id}</code> <CopyButton text={receipt.id} what={t`the request id`} />
            </>
          ),
          [t`Time`]: <When at={receipt.started_at} form="date" />,
          [t`Outcome`]: (
            <State state={receipt.success ? 'ok' : 'danger'}>
              {receipt.outcome === 'served' ? servedText(receipt.finish_reason) : outcomeWords[receipt.outcome]}
            </State>
          ),
          [t`Requested model`]: receipt.requested_model === receipt.model ? null : receipt.requested_model,
          [t`Model`]: receipt.model,
          [t`Served by`]: receipt.served_by && (
            <Provider
              kind={receipt.served_by.provider}
              label={receipt.served_by.hoster_name ?? receipt.served_by.endpoint ?? receipt.served_by.provider}
            />
          ),
          [t`Key`]: receipt.key && [receipt.key.name, receipt.key.hint].filter(Boolean).join(' '),
          [t`Label`]: receipt.label,
          [t`Trace`]: receipt.trace_id && (
            <>
              <code>{receipt.trace_id}</code> <CopyButton text={receipt.trace_id} what={t`the trace id`} />
            </>
          ),
          [t`First token`]: receipt.first_token_ms === null ? null : durationText(receipt.first_token_ms),
          [t`Waited for credit`]: receipt.credit_wait_ms === 0 ? null : durationText(receipt.credit_wait_ms),
          [t`Took`]: durationText(receipt.latency_ms),
          [t`Price group`]: receipt.price.group && <PriceGroup group={receipt.price.group} />,
          [t`Tokens billed`]: t`${countText(tokens.billed.input)} in, ${countText(tokens.billed.output)} out`,
          [t`Tokens the server reported`]: pair(tokens.reported),
          [t`Tokens we counted`]: pair(tokens.counted),
          [t`Reasoning tokens`]: tokens.reasoning === null ? null : countText(tokens.reasoning),
          [t`Lowered max_tokens`]: clamp && `${clamp.asked ?? t`default`} → ${clamp.allowed} (${clamp.by})`,
          [t`Fields not sent`]: receipt.dropped_fields.join(', '),
          [t`Fields changed for the server`]: receipt.changed_fields.join(', '),
          [t`Tier`]: codeText(policy.tier),
          [t`Private only`]: policy.privacy_mode ? t`yes` : null,
          [t`Trusted hosters only`]: policy.trusted_only ? t`yes` : null,
          [t`Most it may cost`]: policy.max_cost_usd === null ? null : `${exactUsd(policy.max_cost_usd)} USD`,
        }}
      />
      {receipt.has_content && <RecordedContent requestId={receipt.id} />}
      {ledger !== null && <Ledger title={t`Transaction ${ledger.transaction}`} entries={ledger.entries} />}
      {refunds.map(refund => (
        <Ledger
          key={refund.transaction}
          title={t`Refund of ${exactUsd(refund.amount_usd)} USD: ${refund.reason}`}
          entries={refund.entries}
        />
      ))}
      <div>
        <CopyButton text={JSON.stringify(receipt, null, 2)} what={t`the receipt as JSON`} label={t`Copy as JSON`} />
      </div>
    </div>
  )
}

/** The prices that the request was charged at. Operators get the way to them. */
function PriceGroup({ group: { name, version } }: { group: NonNullable<RequestReceipt['price']['group']> }) {
  const text = t`${name}, version ${version}`
  return useSession().person.role === null ? text : <Link to="/operator/prices">{text}</Link>
}

function pair({ input, output }: { input: number | null; output: number | null }): string | null {
  if (input === null && output === null) return null
  return t`${input === null ? '–' : countText(input)} in, ${output === null ? '–' : countText(output)} out`
}

const accountWords = { customer: t`you`, hoster_payable: t`hoster`, platform_revenue: t`platform` } as const

function Ledger({ title, entries }: { title: string; entries: NonNullable<RequestReceipt['ledger']>['entries'] }) {
  const sum = sumUsd(entries.map(({ amount_usd }) => amount_usd))
  return (
    <section>
      <h3>{title}</h3>
      <ul className={styles.ledger}>
        {entries.map(({ account_kind, account_id, amount_usd }) => (
          <li key={`${account_kind} ${account_id}`}>
            <span>{accountWords[account_kind]}</span>
            <span>{signedUsd(amount_usd)}</span>
          </li>
        ))}
        <li>
          <span>{t`sum`}</span>
          <span>{sum === 0 ? '0' : signedUsd(sum)}</span>
        </li>
      </ul>
    </section>
  )
}
