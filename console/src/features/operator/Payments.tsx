import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, SegmentedControl } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { ConfirmedPayment, OperatorPayment } from '#api/operator/payments.ts'
import { paymentsQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { chargeText, roundUsd } from '../../format/usd-text.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { TakeBackDialog } from './TakeBackDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

const lists = [
  { value: 'all', label: t`All`, filter: {}, empty: t`No customer has bought credit yet.` },
  { value: 'open', label: t`Waiting`, filter: { state: 'open' }, empty: t`No payment waits.` },
  { value: 'review', label: t`To review`, filter: { review: 'true' }, empty: t`No payment needs a review.` },
] as const

const marks = {
  open: 'warn',
  processing: 'warn',
  paid: 'ok',
  failed: 'danger',
  expired: 'off',
  cancelled: 'off',
} as const

/** The payments of all customers. An operator confirms manual ones, and takes payments back. */
export function Payments() {
  const [shown, setShown] = useState<(typeof lists)[number]['value']>('all')
  const { filter, empty } = lists.find(({ value }) => value === shown)!
  const payments = useInfiniteQuery(paymentsQuery(filter))
  const [confirming, setConfirming] = useState<OperatorPayment | null>(null)
  const [takingBack, setTakingBack] = useState<OperatorPayment | null>(null)
  const mayOperate = useMayOperate()
  const confirm = useWrite<OperatorPayment, ConfirmedPayment>(
    ({ id }) => ({ method: 'POST', path: `operator/payments/${id}/confirm`, body: {} }),
    {
      areas: ['operator-payments', 'money', 'overview', 'customers'],
      done: ({ result }) => doneTexts[result],
      onDone: () => setConfirming(null),
    },
  )
  return (
    <Panel
      title={t`Payments`}
      aside={
        <SegmentedControl
          aria-label={t`Payments shown`}
          size="xs"
          value={shown}
          onChange={value => setShown(value as typeof shown)}
          data={lists.map(({ value, label }) => ({ value, label }))}
        />
      }
    >
      <Loaded query={payments} height={120}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length === 0) return <EmptyState text={empty} />
          return (
            <>
              <DataTable
                label={t`Payments`}
                hasMore={payments.hasNextPage}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Time`,
                    cell: ({ created_at }) => <When at={created_at} />,
                    sortBy: ({ created_at }) => created_at,
                  },
                  { title: t`Customer`, place: 'name', cell: payment => <Payer payment={payment} /> },
                  {
                    title: t`Reference`,
                    cell: ({ reference }) => <code>{reference}</code>,
                    sortBy: ({ reference }) => reference,
                  },
                  { title: t`How`, cell: ({ driver }) => codeText(driver), sortBy: ({ driver }) => driver },
                  {
                    title: t`State`,
                    cell: payment => <PaymentState payment={payment} />,
                    sortBy: ({ state }) => state,
                  },
                  {
                    title: 'USD',
                    align: 'right',
                    place: 'figure',
                    cell: ({ amount_usd }) => roundUsd(amount_usd),
                    sortBy: ({ amount_usd }) => amount_usd,
                  },
                  {
                    title: '',
                    place: 'actions',
                    cell: payment =>
                      mayOperate && <Action payment={payment} onConfirm={setConfirming} onTakeBack={setTakingBack} />,
                  },
                ]}
              />
              {payments.hasNextPage && (
                <Button
                  variant="default"
                  loading={payments.isFetchingNextPage}
                  onClick={() => void payments.fetchNextPage()}
                >{t`Show older payments`}</Button>
              )}
            </>
          )
        }}
      </Loaded>
      <ConfirmDialog
        isOpen={confirming !== null}
        title={t`Has ${chargeText(confirming?.amount_usd ?? 0)} USD arrived?`}
        action={t`It has arrived`}
        isBusy={confirm.isPending}
        onConfirm={() => confirming !== null && confirm.mutate(confirming)}
        onClose={() => setConfirming(null)}
      >
        <p className={styles.hint}>
          <Trans>
            {confirming?.email ?? t`The customer`} gets the credit at once. The reference is{' '}
            <code>{confirming?.reference}</code>.
          </Trans>
        </p>
      </ConfirmDialog>
      {takingBack !== null && <TakeBackDialog payment={takingBack} onClose={() => setTakingBack(null)} />}
    </Panel>
  )
}

const doneTexts = {
  paid: t`The credit is given.`,
  paid_before: t`This payment was confirmed before. Nothing has changed.`,
  waiting: t`A second operator must confirm this payment as well.`,
} as const

function Payer({ payment: { customer_id, email } }: { payment: OperatorPayment }) {
  return (
    <Link to="/operator/customers/$customerId" params={{ customerId: customer_id }}>
      {email ?? customer_id}
    </Link>
  )
}

function PaymentState({ payment: { state, reversed_usd, mismatch, failure } }: { payment: OperatorPayment }) {
  return (
    <>
      <State state={marks[state]}>{codeText(state)}</State>
      {reversed_usd > 0 && t` ${roundUsd(reversed_usd)} USD taken back`}
      {failure !== null && ` ${failure}`}
      {mismatch !== null && <State state="danger">{mismatch}</State>}
    </>
  )
}

function Action({
  payment,
  onConfirm,
  onTakeBack,
}: {
  payment: OperatorPayment
  onConfirm: (payment: OperatorPayment) => void
  onTakeBack: (payment: OperatorPayment) => void
}) {
  const { driver, state, amount_usd, reversed_usd, reference } = payment
  const context = <span className="visually-hidden"> {reference}</span>
  if (driver === 'manual' && state !== 'paid') {
    return (
      <Button variant="default" size="compact-sm" onClick={() => onConfirm(payment)}>
        <Trans>Confirm{context}</Trans>
      </Button>
    )
  }
  if (driver === 'voucher' || state !== 'paid' || reversed_usd >= amount_usd) return null
  return (
    <Button variant="default" size="compact-sm" onClick={() => onTakeBack(payment)}>
      <Trans>Take back{context}</Trans>
    </Button>
  )
}
