import { plural, t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { ApprovedBatch, PayoutBatchShown, SettledBatchShown } from '#api/operator/payouts.ts'
import { payoutBatchQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
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
import { codeText } from '../../texts/code-text.ts'
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
    <Page title={t`Batch of payouts`}>
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
        ? t`Another operator must approve it. Nothing was changed.`
        : t`The batch is approved.`,
  })
  const settle = useWrite<void, SettledBatchShown>(() => ({ method: 'POST', path: `${path}/settle`, body: {} }), {
    areas,
    done: ({ file: made, failed: unanswered }) =>
      made !== null
        ? t`Send the file to the bank, then book each transfer here.`
        : unanswered > 0
          ? t`${plural(unanswered, { one: '# transfer', other: '# transfers' })} got no answer. Settle again.`
          : t`The transfers are sent.`,
    onDone: ({ file: made }) => setFile(made),
  })
  const cancel = useWrite(() => ({ method: 'POST', path: `${path}/cancel`, body: {} }), {
    areas,
    done: t`What was not sent is payable again.`,
    onDone: () => setCancelling(false),
  })
  const paid = useWrite<Payout>(
    ({ id }) => ({ method: 'POST', path: `operator/transfers/${id}`, body: { is_paid: true } }),
    { areas, done: (_, { hoster }) => t`The transfer to ${hoster} is booked as paid.` },
  )
  const mayCancel = batch.data.some(({ state }) => state === 'prepared' || state === 'approved')
  return (
    <>
      {mayOperate && (
        <div className={styles.buttons}>
          {batch.state === 'prepared' && (
            <Button loading={approve.isPending} onClick={() => approve.mutate()}>{t`Approve`}</Button>
          )}
          {batch.state === 'approved' && (
            <Button loading={settle.isPending} onClick={() => settle.mutate()}>
              {batch.driver === 'csv' ? t`Make the file for the bank` : t`Send the transfers`}
            </Button>
          )}
          {mayCancel && (
            <Button variant="default" onClick={() => setCancelling(true)}>{t`Cancel what was not sent`}</Button>
          )}
        </div>
      )}
      <Panel title={t`Batch`}>
        <Facts
          facts={{
            [t`State`]: <State state={batchMarks[batch.state]}>{codeText(batch.state)}</State>,
            [t`How`]: payoutWord(batch.driver, t`bank transfers`),
            [t`Amount`]: t`${chargeText(batch.amount_usd)} USD, ${chargeText(batch.paid_usd)} of it paid`,
            [t`Prepared`]: (
              <Trans>
                <When at={batch.prepared_at} /> by {batch.prepared_by ?? t`the command line`}
              </Trans>
            ),
            [t`Approved`]:
              batch.approved_at === null ? (
                t`not yet`
              ) : (
                <Trans>
                  <When at={batch.approved_at} /> by {batch.approved_by ?? t`the command line`}
                </Trans>
              ),
          }}
        />
      </Panel>
      <PromotionReviews reviews={batch.reviews} />
      {file !== null && (
        <Panel title={t`File for the bank`}>
          <CodeBlock code={file} what={t`the file for the bank`} />
        </Panel>
      )}
      <Panel title={t`Payouts`}>
        <DataTable
          label={t`Payouts of the batch`}
          rows={batch.data}
          keyOf={({ id }) => id}
          columns={[
            { title: t`Hoster`, place: 'name', cell: ({ hoster }) => hoster, sortBy: ({ hoster }) => hoster },
            {
              title: t`Reference`,
              cell: ({ reference }) => <code>{reference}</code>,
              sortBy: ({ reference }) => reference,
            },
            { title: t`To`, cell: ({ holder, account }) => [holder, account].filter(Boolean).join(', ') },
            {
              title: t`State`,
              cell: ({ state, failure, mismatch }) => (
                <>
                  <State state={payoutMarks[state]}>{codeText(state)}</State>
                  {failure !== null && ` ${failure}`}
                  {mismatch !== null && <State state="danger">{mismatch}</State>}
                </>
              ),
              sortBy: ({ state }) => state,
            },
            {
              title: t`Promotion`,
              align: 'right',
              cell: ({ promotion_usd }) => chargeText(promotion_usd),
              sortBy: ({ promotion_usd }) => promotion_usd,
            },
            {
              title: 'USD',
              align: 'right',
              place: 'figure',
              cell: ({ amount_usd }) => chargeText(amount_usd),
              sortBy: ({ amount_usd }) => amount_usd,
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
                      <Trans>
                        Paid<span className="visually-hidden"> to {payout.hoster}</span>
                      </Trans>
                    </Button>
                    <Button size="compact-sm" variant="default" onClick={() => setFailed(payout)}>
                      <Trans>
                        Failed<span className="visually-hidden"> to {payout.hoster}</span>
                      </Trans>
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
        title={t`Cancel what was not sent?`}
        action={t`Cancel it`}
        isBusy={cancel.isPending}
        onConfirm={() => cancel.mutate()}
        onClose={() => setCancelling(false)}
      >
        <p>{t`These payouts become payable again. Transfers that are on their way stay.`}</p>
      </ConfirmDialog>
    </>
  )
}

function FailedDialog({ payout, onClose }: { payout: Payout; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const fail = useWrite(
    () => ({ method: 'POST', path: `operator/transfers/${payout.id}`, body: { is_paid: false, reason } }),
    { areas, done: t`${payout.hoster} can be paid again.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`The transfer to ${payout.hoster} failed`}
      action={t`Book it as failed`}
      sending={fail}
      onSubmit={() => fail.mutate()}
      onClose={onClose}
    >
      <TextInput
        label={t`Reason`}
        description={t`The reason that the bank gives. The hoster reads it.`}
        required
        maxLength={200}
        value={reason}
        onChange={event => setReason(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  )
}
