import { t } from '@lingui/core/macro'
import { Drawer } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import type { OperatorReceipt as Shown } from '#api/operator/receipt.ts'
import { operatorReceiptQuery } from '../../api/operator-queries.ts'
import { countText, durationText } from '../../format/number-text.ts'
import { chargeText, exactUsd } from '../../format/usd-text.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { failureWords } from '../../parts/failure-words.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { outcomeWords, servedText } from '../../parts/outcome-words.ts'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './operator.module.css'
import { readRequestLogSearch } from './operator-search.ts'

type Receipt = Shown['receipt']

/** What a request of any customer was paid, what it cost, and how its servers answered. */
export function OperatorReceipt() {
  const requestId = useParams({ strict: false }).requestId!
  const search = readRequestLogSearch(useSearch({ strict: false }))
  const navigate = useNavigate()
  const receipt = useQuery(operatorReceiptQuery(requestId))
  const close = () => void navigate({ to: '/operator/requests', search })
  return (
    <Drawer opened onClose={close} title={t`Receipt`} closeButtonProps={{ 'aria-label': t`Close the receipt` }}>
      <Loaded query={receipt} height={480}>
        {data => <Body shown={data} />}
      </Loaded>
    </Drawer>
  )
}

function Body({ shown }: { shown: Shown }) {
  const { receipt, customer } = shown
  const input = exactUsd(receipt.price.input_usd_per_million)
  const output = exactUsd(receipt.price.output_usd_per_million)
  return (
    <div className={styles.form}>
      <h3>{t`Money`}</h3>
      <Facts
        facts={{
          [t`Paid by the customer`]: `${chargeText(shown.paid_usd)} USD`,
          [t`Refunded`]: receipt.refunds.map(each => `${chargeText(each.amount_usd)} USD: ${each.reason}`).join(', '),
          [receipt.served_by?.hoster_id == null ? t`Cost to you` : t`Share of the hoster`]: amount(shown.cost_usd),
          [t`Fee`]: receipt.served_by?.hoster_id == null ? null : `${chargeText(shown.fee_usd)} USD`,
          [t`Margin`]: amount(shown.margin_usd),
          [t`Measured but not charged`]:
            receipt.written_off_usd === 0 ? null : `${chargeText(receipt.written_off_usd)} USD`,
          [t`Price group`]: receipt.price.group && <PriceGroup group={receipt.price.group} />,
          [t`Prices`]: t`${input} in, ${output} out, in USD per million tokens`,
          [t`Tokens billed`]: t`${countText(receipt.tokens.billed.input)} in, ${countText(receipt.tokens.billed.output)} out`,
        }}
      />
      {shown.cost_usd === null && (
        <p className={styles.hint}>{t`The cost is unknown: no price was set that this server charges you.`}</p>
      )}
      <h3>{t`Request`}</h3>
      <Facts
        facts={{
          [t`Customer`]: (
            <Link to="/operator/customers/$customerId" params={{ customerId: customer.id }}>
              {customer.email ?? customer.id.slice(0, 8)}
            </Link>
          ),
          [t`Key`]: receipt.key && [receipt.key.name, receipt.key.hint].filter(Boolean).join(' '),
          [t`Label`]: receipt.label,
          [t`Requested model`]: receipt.requested_model === receipt.model ? null : receipt.requested_model,
          [t`Model`]: receipt.model,
          [t`Served by`]: receipt.served_by && <Server served={receipt.served_by} />,
          [t`Time`]: <When at={receipt.started_at} form="date" />,
          [t`Outcome`]: (
            <State state={receipt.success ? 'ok' : 'danger'}>
              {receipt.outcome === 'served' ? servedText(receipt.finish_reason) : outcomeWords[receipt.outcome]}
            </State>
          ),
          [t`First token`]: receipt.first_token_ms === null ? null : durationText(receipt.first_token_ms),
          [t`Took`]: durationText(receipt.latency_ms),
          [t`Id`]: (
            <>
              <code>{receipt.id}</code> <CopyButton text={receipt.id} what={t`the request id`} />
            </>
          ),
          [t`Trace`]: receipt.trace_id && (
            <>
              <code>{receipt.trace_id}</code> <CopyButton text={receipt.trace_id} what={t`the trace id`} />
            </>
          ),
        }}
      />
      <h3>{t`Attempts`}</h3>
      <Attempts attempts={receipt.attempts} errors={shown.errors} />
      <p>
        <Link
          to="/c/$customerId/activity/$requestId"
          params={{ customerId: customer.id, requestId: receipt.id }}
        >{t`The receipt as the customer sees it`}</Link>
      </p>
    </div>
  )
}

function PriceGroup({ group: { name, version } }: { group: NonNullable<Receipt['price']['group']> }) {
  return <Link to="/operator/prices">{t`${name}, version ${version}`}</Link>
}

function amount(usd: number | null): string {
  return usd === null ? '–' : `${chargeText(usd)} USD`
}

function Server({ served }: { served: NonNullable<Receipt['served_by']> }) {
  const { provider, hoster_id, hoster_name, endpoint } = served
  const shown = <Provider kind={provider} label={hoster_name ?? endpoint ?? provider} />
  if (hoster_id === null) return <Link to="/operator/providers">{shown}</Link>
  return (
    <Link to="/operator/hosters/$hosterId" params={{ hosterId: hoster_id }}>
      {shown}
    </Link>
  )
}

/** The servers that were asked, in order, and what those said that failed. */
function Attempts({ attempts, errors }: { attempts: Receipt['attempts']; errors: Shown['errors'] }) {
  if (attempts.length === 0) return <p className={styles.hint}>{t`No server was asked.`}</p>
  return (
    <ol className={styles.attempts}>
      {attempts.map(({ provider, hoster_name, endpoint, model, outcome, elapsed_ms }, index) => {
        const after = durationText(elapsed_ms)
        const failure = failureWords[outcome] ?? outcome
        return (
          <li key={index}>
            <Provider kind={provider} label={hoster_name ?? endpoint} /> · {model} ·{' '}
            {outcome === 'answered' ? t`answered after ${after}` : t`${failure}, after ${after}`}
            {errors
              .filter(each => outcome !== 'answered' && each.server === endpoint && each.model === model)
              .map(({ status, text }) => (
                <p key={text} className={styles.error}>
                  {status !== null && !text.startsWith(String(status)) && `${status}: `}
                  {text}
                </p>
              ))}
          </li>
        )
      })}
    </ol>
  )
}
