import { Button, Modal, Textarea } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { hosterTrustQuery, type OperatorHosterTrust } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { countText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './operator.module.css'
import { TrustDialog } from './TrustDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

/** The trust of a hoster: its parts, the score of the operator, the quarantine and its appeal. */
export function HosterTrust({ hosterId, name }: { hosterId: string; name: string }) {
  const trust = useQuery(hosterTrustQuery(hosterId))
  const mayOperate = useMayOperate()
  const [dialog, setDialog] = useState<'trust' | 'end' | 'keep' | null>(null)
  const close = () => setDialog(null)
  return (
    <Panel
      title="Trust"
      aside={
        mayOperate && (
          <div className={styles.buttons}>
            {trust.data?.is_quarantined && (
              <>
                <Button size="compact-sm" onClick={() => setDialog('end')}>
                  End the quarantine
                </Button>
                <Button size="compact-sm" variant="default" onClick={() => setDialog('keep')}>
                  Keep it
                </Button>
              </>
            )}
            <Button size="compact-sm" variant="default" onClick={() => setDialog('trust')}>
              Set the trust
            </Button>
          </div>
        )
      }
    >
      <Loaded query={trust} height={240}>
        {data => (
          <div className={styles.form}>
            <Facts
              facts={{
                Score: `${data.score.toFixed(2)}${data.is_set_by_operator ? `, set by an operator; earned ${data.earned_score.toFixed(2)}` : ''}`,
                Trusted: (
                  <State state={data.is_trusted ? 'ok' : 'off'}>
                    {data.is_trusted ? 'serves trusted_only' : 'not above 0.8'}
                  </State>
                ),
                Standing: `${data.standing}, at most ${data.cap.toFixed(2)}`,
                Quarantine: data.is_quarantined ? (data.quarantine_reason ?? 'yes') : null,
                Requests: countText(data.requests),
                Audits: countText(data.audits),
              }}
            />
            <DataTable
              label="Parts of the score"
              rows={data.components}
              keyOf={each => each.name}
              columns={[
                { title: 'Part', place: 'name', cell: each => each.name },
                {
                  title: 'Sample',
                  align: 'right',
                  isLabelled: true,
                  cell: ({ sample }) => countText(Math.round(sample)),
                },
                { title: 'Bound', align: 'right', place: 'money', cell: ({ bound }) => bound.toFixed(3) },
              ]}
            />
            {data.appeals.length > 0 && <Appeals appeals={data.appeals} />}
            {dialog === 'trust' && (
              <TrustDialog hoster={{ id: hosterId, name, trust_score: data.score }} onClose={close} />
            )}
            {(dialog === 'end' || dialog === 'keep') && (
              <QuarantineDialog hosterId={hosterId} name={name} decision={dialog} onClose={close} />
            )}
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

function Appeals({ appeals }: Pick<OperatorHosterTrust, 'appeals'>) {
  return (
    <DataTable
      label="Appeals"
      rows={appeals}
      keyOf={({ at }) => at}
      columns={[
        { title: 'Time', cell: ({ at }) => <When at={at} /> },
        { title: 'Appeal', place: 'name', cell: ({ text }) => text },
        { title: 'Answer', cell: ({ answer }) => answer ?? <State state="warn">waits for you</State> },
      ]}
    />
  )
}

function QuarantineDialog({
  hosterId,
  name,
  decision,
  onClose,
}: {
  hosterId: string
  name: string
  decision: 'end' | 'keep'
  onClose: () => void
}) {
  const [reason, setReason] = useState('')
  const decide = useWrite(
    () => ({ method: 'POST', path: `operator/hosters/${hosterId}/quarantine`, body: { decision, reason } }),
    {
      areas: ['supply', 'overview', 'hoster', 'hosters'],
      done: decision === 'end' ? `${name} gets requests again.` : 'The quarantine stays.',
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <Modal
      opened
      onClose={onClose}
      title={decision === 'end' ? `End the quarantine of ${name}?` : `Keep the quarantine of ${name}?`}
    >
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          decide.mutate()
        }}
      >
        <p>
          {decision === 'end'
            ? 'It becomes active, its payouts are released, and the tests start again.'
            : 'It stays suspended, and its payouts stay frozen.'}
        </p>
        <Textarea
          label="Reason"
          description="It answers the appeal. The hoster reads it."
          minRows={2}
          required
          maxLength={4_000}
          value={reason}
          onChange={event => setReason(event.currentTarget.value)}
          data-autofocus
        />
        <FormProblem error={decide.error} />
        <div className={styles.buttons}>
          <Button type="submit" loading={decide.isPending}>
            {decision === 'end' ? 'End it' : 'Keep it'}
          </Button>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </Modal>
  )
}
