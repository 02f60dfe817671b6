import { t } from '@lingui/core/macro'
import { Link, useNavigate } from '@tanstack/react-router'
import type { ListedRequest } from '#api/activity.ts'
import { countText, durationText } from '../format/number-text.ts'
import { DataTable } from './DataTable.tsx'
import { Charge } from './Money.tsx'
import { outcomeWords, servedText } from './outcome-words.ts'
import { Provider } from './Provider.tsx'
import styles from './parts.module.css'
import { State } from './State.tsx'
import { When } from './When.tsx'

/**
 * Requests, newest first. A row opens its receipt.
 *
 * @param props.hasMore there are older ones
 * @param props.keyNames by id; shows the key of each request
 */
export function RequestTable({
  customerId,
  rows,
  hasMore,
  keyNames,
}: {
  customerId: string
  rows: readonly ListedRequest[]
  hasMore: boolean
  keyNames?: ReadonlyMap<string, string> | undefined
}) {
  const navigate = useNavigate()
  const to = '/c/$customerId/activity/$requestId'
  return (
    <DataTable
      label={t`Requests`}
      hasMore={hasMore}
      rows={rows}
      keyOf={({ id }) => id}
      onOpen={({ id }) => void navigate({ to, params: { customerId, requestId: id }, search: true })}
      columns={[
        { title: t`Time`, cell: ({ started_at }) => <When at={started_at} />, sortBy: ({ started_at }) => started_at },
        {
          title: t`Model`,
          place: 'name',
          cell: ({ id, model, label }) => (
            <>
              <Link to={to} params={{ customerId, requestId: id }} search>
                {model}
              </Link>
              {label !== null && <span className={styles.label}>{label}</span>}
            </>
          ),
          sortBy: ({ model }) => model,
        },
        ...(keyNames === undefined
          ? []
          : [
              {
                title: t`Key`,
                place: 'hidden' as const,
                cell: ({ key_id }: ListedRequest) => (key_id === null ? '–' : (keyNames.get(key_id) ?? t`deleted`)),
                sortBy: ({ key_id }: ListedRequest) => (key_id === null ? null : (keyNames.get(key_id) ?? null)),
              },
            ]),
        { title: t`Server`, cell: ({ provider }) => <Provider kind={provider} />, sortBy: ({ provider }) => provider },
        {
          title: t`Tokens`,
          align: 'right',
          cell: ({ input_tokens, output_tokens }) => (
            <span className={styles.number}>
              {countText(input_tokens)} → {countText(output_tokens)}
            </span>
          ),
          sortBy: each => each.input_tokens + each.output_tokens,
        },
        {
          title: t`Took`,
          align: 'right',
          cell: ({ latency_ms }) => <span className={styles.number}>{durationText(latency_ms)}</span>,
          sortBy: ({ latency_ms }) => latency_ms,
        },
        {
          title: t`Outcome`,
          cell: ({ outcome, success, finish_reason }) => (
            <State state={!success ? 'danger' : finish_reason === 'length' ? 'warn' : 'ok'}>
              {outcome === 'served' ? servedText(finish_reason) : outcomeWords[outcome]}
            </State>
          ),
          sortBy: ({ outcome }) => outcome,
        },
        {
          title: 'USD',
          align: 'right',
          place: 'figure',
          cell: ({ cost_usd }) => <Charge usd={cost_usd} />,
          sortBy: ({ cost_usd }) => cost_usd,
        },
      ]}
    />
  )
}
