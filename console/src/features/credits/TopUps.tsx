import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import type { TopUp } from '#api/payments.ts'
import { topUpsQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { paymentWord } from '../../format/payment-words.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './credits.module.css'

const states = {
  open: { state: 'warn', word: t`waits for your payment` },
  processing: { state: 'warn', word: t`waits for the provider` },
  paid: { state: 'ok', word: t`paid` },
  failed: { state: 'danger', word: t`failed` },
  expired: { state: 'off', word: t`expired` },
  cancelled: { state: 'off', word: t`cancelled` },
} as const

/** The payments of the customer, the newest first, and what to do for those that wait. */
export function TopUps({ customerId, mayCancel }: { customerId: string; mayCancel: boolean }) {
  const topUps = useInfiniteQuery(topUpsQuery(customerId))
  const cancel = useWrite<TopUp>(
    ({ id }) => ({ method: 'POST', path: `customers/${customerId}/top-ups/${id}/cancel`, body: {} }),
    { areas: ['payments'], done: t`The top-up is cancelled.` },
  )
  return (
    <Loaded query={topUps} height={0}>
      {({ pages }) => {
        const rows = pages.flatMap(({ data }) => data)
        if (rows.length === 0) return null
        return (
          <>
            {rows
              .filter(({ state }) => state === 'open' || state === 'processing')
              .map(topUp => (
                <WaitingTopUp
                  key={topUp.id}
                  topUp={topUp}
                  mayCancel={mayCancel}
                  isCancelling={cancel.isPending}
                  onCancel={() => cancel.mutate(topUp)}
                />
              ))}
            <DataTable
              label={t`Top-ups`}
              hasMore={topUps.hasNextPage}
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: t`Time`,
                  cell: ({ created_at }) => <When at={created_at} />,
                  sortBy: ({ created_at }) => created_at,
                },
                { title: t`How`, place: 'name', cell: topUp => <How topUp={topUp} /> },
                {
                  title: t`State`,
                  cell: topUp => <State state={states[topUp.state].state}>{states[topUp.state].word}</State>,
                  sortBy: ({ state }) => state,
                },
                {
                  title: 'USD',
                  align: 'right',
                  place: 'figure',
                  cell: ({ amount_usd, reversed_usd }) =>
                    reversed_usd === 0
                      ? roundUsd(amount_usd)
                      : t`${roundUsd(amount_usd)}, ${roundUsd(reversed_usd)} taken back`,
                  sortBy: ({ amount_usd }) => amount_usd,
                },
              ]}
            />
            {topUps.hasNextPage && (
              <Button
                variant="default"
                loading={topUps.isFetchingNextPage}
                onClick={() => void topUps.fetchNextPage()}
              >{t`Show older top-ups`}</Button>
            )}
          </>
        )
      }}
    </Loaded>
  )
}

/** A payment that waits, and what the payer can do for it. */
function WaitingTopUp({
  topUp,
  mayCancel,
  isCancelling,
  onCancel,
}: {
  topUp: TopUp
  mayCancel: boolean
  isCancelling: boolean
  onCancel: () => void
}) {
  return (
    <div className={styles.waiting}>
      <State state="warn">{`${roundUsd(topUp.amount_usd)} USD: ${states[topUp.state].word}`}</State>
      {topUp.instructions !== null && <p className={styles.instructions}>{topUp.instructions}</p>}
      <p>
        <Trans>
          Reference: <code>{topUp.reference}</code>{' '}
          <CopyButton text={topUp.reference} what={t`the reference of the payment`} />
        </Trans>
      </p>
      <div className={styles.buttons}>
        {topUp.redirect_url !== null && <Button component="a" href={topUp.redirect_url}>{t`Pay now`}</Button>}
        {mayCancel && topUp.driver === 'manual' && topUp.state === 'open' && (
          <Button variant="default" loading={isCancelling} onClick={onCancel}>{t`Cancel this top-up`}</Button>
        )}
      </div>
    </div>
  )
}

function How({ topUp: { driver, method, reference, failure, receipt_url } }: { topUp: TopUp }) {
  const card = method === null ? '' : `, ${method.brand} ···${method.last4}`
  return (
    <>
      {paymentWord(driver, t`Bank transfer`)}
      {card} <code>{reference}</code>
      {failure !== null && `: ${failure}`}{' '}
      {receipt_url !== null && <a href={receipt_url} target="_blank" rel="noreferrer">{t`receipt`}</a>}
    </>
  )
}
