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

/** Requests, newest first. A row opens its receipt. */
export function RequestTable({ customerId, rows }: { customerId: string; rows: readonly ListedRequest[] }) {
  const navigate = useNavigate()
  const to = '/c/$customerId/activity/$requestId'
  return (
    <DataTable
      label={t`Requests`}
      isPaged
      rows={rows}
      keyOf={({ id }) => id}
      onOpen={({ id }) => void navigate({ to, params: { customerId, requestId: id }, search: true })}
      columns={[
        { title: t`Time`, cell: ({ started_at }) => <When at={started_at} /> },
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
        },
        { title: t`Server`, cell: ({ provider }) => <Provider kind={provider} /> },
        {
          title: t`Tokens`,
          align: 'right',
          cell: ({ input_tokens, output_tokens }) => (
            <span className={styles.number}>
              {countText(input_tokens)} → {countText(output_tokens)}
            </span>
          ),
        },
        {
          title: t`Took`,
          align: 'right',
          cell: ({ latency_ms }) => <span className={styles.number}>{durationText(latency_ms)}</span>,
        },
        {
          title: t`Outcome`,
          cell: ({ outcome, success, finish_reason }) => (
            <State state={success ? 'ok' : 'danger'}>
              {outcome === 'served' ? servedText(finish_reason) : outcomeWords[outcome]}
            </State>
          ),
        },
        { title: 'USD', align: 'right', place: 'figure', cell: ({ cost_usd }) => <Charge usd={cost_usd} /> },
      ]}
    />
  )
}
