import { Button, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { ApprovedBatch, PayoutBatchShown, SettledBatchShown } from '#api/operator/payouts.ts'
import { payoutBatchQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { plural } from '../../format/number-text.ts'
import { payoutWord } from '../../format/payout-words.ts'
import { chargeText } from '../../format/usd-text.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { batchMarks, payoutMarks } from '../../parts/payout-marks.ts'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './operator.module.css'
import { PromotionReviews } from './PromotionReviews.tsx'
import { useMayOperate } from './use-may-operate.ts'

type Payout = PayoutBatchShown['data'][number]

const areas = ['payouts', 'money', 'overview']

/** One batch of payouts: approve, settle, book what the bank made of each transfer. */
export function PayoutBatch() {
  const batchId = useParams({ strict: false }).batchId!
  const batch = useQuery(payoutBatchQuery(batchId))
  return (
    <Page title="Batch of payouts">
      <Loaded query={batch} height={400}>
        {data => <Body batch={data} />}
      </Loaded>
    </Page>
  )
}

function Body({ batch }: { batch: PayoutBatchShown }) {
  const mayOperate = useMayOperate()
  const [isCancelling, setCancelling] = useState(false)
  const [failed, setFailed] = useState<Payout | null>(null)
  const [file, setFile] = useState<string | null>(null)
  const path = `operator/payouts/${batch.id}`
  const approve = useWrite<void, ApprovedBatch>(() => ({ method: 'POST', path: `${path}/approve`, body: {} }), {
    areas,
    done: ({ result }) =>
      result === 'second_operator'
        ? 'Another operator must approve it. Nothing was changed.'
        : 'The batch is approved.',
  })
  const settle = useWrite<void, SettledBatchShown>(() => ({ method: 'POST', path: `${path}/settle`, body: {} }), {
    areas,
    done: ({ file: made, failed: unanswered }) =>
      made !== null
        ? 'Send the file to the bank, then book each transfer here.'
        : unanswered > 0
          ? `${plural(unanswered, 'transfer')} got no answer. Settle again.`
          : 'The transfers are sent.',
    onDone: ({ file: made }) => setFile(made),
  })
  const cancel = useWrite(() => ({ method: 'POST', path: `${path}/cancel`, body: {} }), {
    areas,
    done: 'What was not sent is payable again.',
    onDone: () => setCancelling(false),
  })
  const paid = useWrite<Payout>(
    ({ id }) => ({ method: 'POST', path: `operator/transfers/${id}`, body: { is_paid: true } }),
    { areas, done: (_, { hoster }) => `The transfer to ${hoster} is booked as paid.` },
  )
  const mayCancel = batch.data.some(({ state }) => state === 'prepared' || state === 'approved')
  return (
    <>
      {mayOperate && (
        <div className={styles.buttons}>
          {batch.state === 'prepared' && (
            <Button loading={approve.isPending} onClick={() => approve.mutate()}>
              Approve
            </Button>
          )}
          {batch.state === 'approved' && (
            <Button loading={settle.isPending} onClick={() => settle.mutate()}>
              {batch.driver === 'csv' ? 'Make the file for the bank' : 'Send the transfers'}
            </Button>
          )}
          {mayCancel && (
            <Button variant="default" onClick={() => setCancelling(true)}>
              Cancel what was not sent
            </Button>
          )}
        </div>
      )}
      <Panel title="Batch">
        <Facts
          facts={{
            State: <State state={batchMarks[batch.state]}>{batch.state}</State>,
            How: payoutWord(batch.driver, 'bank transfers'),
            Amount: `${chargeText(batch.amount_usd)} USD, ${chargeText(batch.paid_usd)} of it paid`,
            Prepared: (
              <>
                <When at={batch.prepared_at} /> by {batch.prepared_by ?? 'the command line'}
              </>
            ),
            Approved:
              batch.approved_at === null ? (
                'not yet'
              ) : (
                <>
                  <When at={batch.approved_at} /> by {batch.approved_by ?? 'the command line'}
                </>
              ),
          }}
        />
      </Panel>
      <PromotionReviews reviews={batch.reviews} />
      {file !== null && (
        <Panel title="File for the bank">
          <CodeBlock code={file} what="the file for the bank" />
        </Panel>
      )}
      <Panel title="Payouts">
        <DataTable
          label="Payouts of the batch"
          rows={batch.data}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Hoster', place: 'name', cell: ({ hoster }) => hoster },
            { title: 'Reference', cell: ({ reference }) => <code>{reference}</code> },
            { title: 'To', cell: ({ holder, account }) => [holder, account].filter(Boolean).join(', ') },
            {
              title: 'State',
              cell: ({ state, failure, mismatch }) => (
                <>
                  <State state={payoutMarks[state]}>{state}</State>
                  {failure !== null && ` ${failure}`}
                  {mismatch !== null && <State state="danger">{mismatch}</State>}
                </>
              ),
            },
            {
              title: 'Promotion',
              align: 'right',
              isLabelled: true,
              cell: ({ promotion_usd }) => chargeText(promotion_usd),
            },
            {
              title: 'USD',
              align: 'right',
              place: 'figure',
              isLabelled: true,
              cell: ({ amount_usd }) => chargeText(amount_usd),
            },
            {
              title: '',
              align: 'right',
              cell: payout =>
                mayOperate &&
                payout.driver === 'csv' &&
                payout.state === 'sending' && (
                  <div className={styles.buttons}>
                    <Button size="compact-sm" variant="default" onClick={() => paid.mutate(payout)}>
                      Paid<span className="visually-hidden"> to {payout.hoster}</span>
                    </Button>
                    <Button size="compact-sm" variant="default" onClick={() => setFailed(payout)}>
                      Failed<span className="visually-hidden"> to {payout.hoster}</span>
                    </Button>
                  </div>
                ),
            },
          ]}
        />
      </Panel>
      {failed !== null && <FailedDialog payout={failed} onClose={() => setFailed(null)} />}
      <ConfirmDialog
        isOpen={isCancelling}
        title="Cancel what was not sent?"
        action="Cancel it"
        isBusy={cancel.isPending}
        onConfirm={() => cancel.mutate()}
        onClose={() => setCancelling(false)}
      >
        <p>These payouts become payable again. Transfers that are on their way stay.</p>
      </ConfirmDialog>
    </>
  )
}

function FailedDialog({ payout, onClose }: { payout: Payout; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const fail = useWrite(
    () => ({ method: 'POST', path: `operator/transfers/${payout.id}`, body: { is_paid: false, reason } }),
    { areas, done: `${payout.hoster} can be paid again.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={`The transfer to ${payout.hoster} failed`}
      action="Book it as failed"
      sending={fail}
      onSubmit={() => fail.mutate()}
      onClose={onClose}
    >
      <TextInput
        label="Reason"
        description="The reason that the bank gives. The hoster reads it."
        required
        maxLength={200}
        value={reason}
        onChange={event => setReason(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  )
}
