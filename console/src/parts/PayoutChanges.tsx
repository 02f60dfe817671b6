import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import type { PayoutAccountShown } from '#api/payouts.ts'
import { useWrite } from '../api/use-write.ts'
import { codeText } from '../texts/code-text.ts'
import { DataTable } from './DataTable.tsx'
import { State } from './State.tsx'
import { When } from './When.tsx'

type Change = PayoutAccountShown['changes'][number]

/**
 * Pending changes to where a hoster's earnings go.
 *
 * @param stopAt the id of the hoster, if the reader may stop them
 */
export function PayoutChanges({
  changes,
  nameOf = id => id,
  stopAt,
}: {
  changes: readonly Change[]
  nameOf?: (customerId: string) => string
  stopAt?: string
}) {
  const stop = useWrite<Change>(
    ({ id }) => ({ method: 'POST', path: `hosters/${stopAt}/payout-changes/${id}/stop`, body: {} }),
    { areas: ['earnings'], done: t`The change is stopped.` },
  )
  if (changes.length === 0) return null
  return (
    <DataTable
      label={t`Changes that wait`}
      rows={changes}
      keyOf={({ id }) => id}
      columns={[
        { title: t`Takes effect`, place: 'name', cell: ({ effective_at }) => <When at={effective_at} /> },
        { title: t`Earnings go to`, cell: change => target(change, nameOf) },
        {
          title: t`Asked for by`,
          cell: ({ requested_by }) => requested_by ?? t`the operator or provider`,
        },
        {
          title: '',
          align: 'right',
          cell: change => (
            <>
              {change.state !== null && change.state !== 'ready' && (
                <State state="warn">{`${codeText(change.state)}: ${change.note ?? t`the provider checks it`}`}</State>
              )}
              {stopAt !== undefined && (
                <Button
                  size="compact-sm"
                  color="red"
                  loading={stop.isPending}
                  onClick={() => stop.mutate(change)}
                >{t`Stop it`}</Button>
              )}
            </>
          ),
        },
      ]}
    />
  )
}

function target({ kind, customer_id, holder, account }: Change, nameOf: (customerId: string) => string): string {
  if (kind === 'customer') return t`the balance of ${nameOf(customer_id!)}`
  return [holder, account].filter(Boolean).join(', ')
}
