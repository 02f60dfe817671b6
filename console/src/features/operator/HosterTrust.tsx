import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { HosterReview } from '#api/operator/supply.ts'
import { hosterTrustQuery } from '../../api/operator-queries.ts'
import { countText } from '../../format/number-text.ts'
import { AppealTable } from '../../parts/AppealTable.tsx'
import { AuditTable } from '../../parts/AuditTable.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './operator.module.css'
import { ReasonDialog } from './ReasonDialog.tsx'
import { TrustDialog } from './TrustDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

const AUDITS_SHOWN = 20

/** The trust of a hoster: its parts, the score of the operator, the quarantine and its appeal. */
export function HosterTrust({ hoster }: { hoster: Pick<HosterReview, 'id' | 'name' | 'has_contract'> }) {
  const { id: hosterId, name, has_contract: hasContract } = hoster
  const trust = useQuery(hosterTrustQuery(hosterId))
  const mayOperate = useMayOperate()
  const [dialog, setDialog] = useState<'trust' | 'contract' | 'end' | 'keep' | null>(null)
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
            <Button size="compact-sm" variant="default" onClick={() => setDialog('contract')}>
              {hasContract ? 'End the contract' : 'Note a contract'}
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
                Contract: hasContract ? 'yes' : 'none',
                Quarantine: data.is_quarantined ? (data.quarantine_reason ?? 'yes') : null,
                Requests: countText(data.requests),
                Audits: countText(data.audits),
                'May recognise audits of': data.recognisable_models.join(', ') || null,
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
                {
                  title: 'Bound',
                  align: 'right',
                  place: 'figure',
                  isLabelled: true,
                  cell: ({ bound }) => bound.toFixed(3),
                },
              ]}
            />
            {data.last_audits.length > 0 && (
              <AuditTable
                audits={data.last_audits.slice(0, AUDITS_SHOWN)}
                when={{ title: 'Time', cell: ({ at }) => <When at={at} /> }}
              />
            )}
            {data.appeals.length > 0 && <AppealTable appeals={data.appeals} waits="waits for you" />}
            {dialog === 'trust' && (
              <TrustDialog hoster={{ id: hosterId, name, trust_score: data.score }} onClose={close} />
            )}
            {dialog === 'contract' && (
              <ReasonDialog
                title={hasContract ? `Has the contract with ${name} ended?` : `Is ${name} under contract?`}
                action={hasContract ? 'It has ended' : 'It is under contract'}
                reader="For the audit log, for example the number of the contract."
                send={reason => ({
                  method: 'PATCH',
                  path: `operator/hosters/${hosterId}`,
                  body: { has_contract: !hasContract, reason },
                })}
                done={hasContract ? `${name} is under no contract.` : `${name} is under contract.`}
                onClose={close}
              >
                {hasContract
                  ? 'Its trust score gets the limit of hosters without a contract again.'
                  : 'A contract lifts the limit of the trust score: it can reach 1. The score is still earned.'}
              </ReasonDialog>
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
  const isEnd = decision === 'end'
  return (
    <ReasonDialog
      title={isEnd ? `End the quarantine of ${name}?` : `Keep the quarantine of ${name}?`}
      action={isEnd ? 'End it' : 'Keep it'}
      reader="It answers the appeal. The hoster reads it."
      maxLength={4_000}
      send={reason => ({
        method: 'POST',
        path: `operator/hosters/${hosterId}/quarantine`,
        body: { decision, reason },
      })}
      done={isEnd ? `${name} gets requests again.` : 'The quarantine stays.'}
      onClose={onClose}
    >
      {isEnd
        ? 'It becomes active, its payouts are released, and the tests start again.'
        : 'It stays suspended, and its payouts stay frozen.'}
    </ReasonDialog>
  )
}
