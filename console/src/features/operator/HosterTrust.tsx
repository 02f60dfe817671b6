import { t } from '@lingui/core/macro'
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
import { codeText, saidText } from '../../texts/code-text.ts'
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
      title={t`Trust`}
      aside={
        mayOperate && (
          <div className={styles.buttons}>
            {trust.data?.is_quarantined && (
              <>
                <Button size="compact-sm" onClick={() => setDialog('end')}>{t`End the quarantine`}</Button>
                <Button size="compact-sm" variant="default" onClick={() => setDialog('keep')}>{t`Keep it`}</Button>
              </>
            )}
            <Button size="compact-sm" variant="default" onClick={() => setDialog('trust')}>{t`Set the trust`}</Button>
            <Button size="compact-sm" variant="default" onClick={() => setDialog('contract')}>
              {hasContract ? t`End the contract` : t`Note a contract`}
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
                [t`Score`]: `${data.score.toFixed(2)}${data.is_set_by_operator ? t`, set by an operator; earned ${data.earned_score.toFixed(2)}` : ''}`,
                [t`Trusted`]: (
                  <State state={data.is_trusted ? 'ok' : 'off'}>
                    {data.is_trusted ? t`serves trusted_only` : t`not above 0.8`}
                  </State>
                ),
                [t`Standing`]: t`${codeText(data.standing)}, at most ${data.cap.toFixed(2)}`,
                [t`Contract`]: hasContract ? t`yes` : t`none`,
                [t`Quarantine`]: data.is_quarantined
                  ? data.quarantine_reason === null
                    ? t`yes`
                    : saidText(data.quarantine_reason, data.quarantine_reason_codes)
                  : null,
                [t`Requests`]: countText(data.requests),
                [t`Audits`]: countText(data.audits),
                [t`May recognise audits of`]: data.recognisable_models.join(', ') || null,
              }}
            />
            <DataTable
              label={t`Parts of the score`}
              rows={data.components}
              keyOf={each => each.name}
              columns={[
                { title: t`Part`, place: 'name', cell: each => codeText(each.name) },
                {
                  title: t`Sample`,
                  align: 'right',
                  cell: ({ sample }) => countText(Math.round(sample)),
                },
                {
                  title: t`Bound`,
                  align: 'right',
                  place: 'figure',
                  cell: ({ bound }) => bound.toFixed(3),
                },
              ]}
            />
            {data.last_audits.length > 0 && (
              <AuditTable
                audits={data.last_audits.slice(0, AUDITS_SHOWN)}
                when={{ title: t`Time`, cell: ({ at }) => <When at={at} /> }}
              />
            )}
            {data.appeals.length > 0 && <AppealTable appeals={data.appeals} waits={t`waits for you`} />}
            {dialog === 'trust' && (
              <TrustDialog hoster={{ id: hosterId, name, trust_score: data.score }} onClose={close} />
            )}
            {dialog === 'contract' && (
              <ReasonDialog
                title={hasContract ? t`Has the contract with ${name} ended?` : t`Is ${name} under contract?`}
                action={hasContract ? t`It has ended` : t`It is under contract`}
                reader={t`For the audit log, for example the number of the contract.`}
                send={reason => ({
                  method: 'PATCH',
                  path: `operator/hosters/${hosterId}`,
                  body: { has_contract: !hasContract, reason },
                })}
                done={hasContract ? t`${name} is under no contract.` : t`${name} is under contract.`}
                onClose={close}
              >
                {hasContract
                  ? t`Its trust score gets the limit of hosters without a contract again.`
                  : t`A contract lifts the limit of the trust score: it can reach 1. The score is still earned.`}
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
      title={isEnd ? t`End the quarantine of ${name}?` : t`Keep the quarantine of ${name}?`}
      action={isEnd ? t`End it` : t`Keep it`}
      reader={t`It answers the appeal. The hoster reads it.`}
      maxLength={4_000}
      send={reason => ({
        method: 'POST',
        path: `operator/hosters/${hosterId}/quarantine`,
        body: { decision, reason },
      })}
      done={isEnd ? t`${name} gets requests again.` : t`The quarantine stays.`}
      onClose={onClose}
    >
      {isEnd
        ? t`It becomes active, its payouts are released, and the tests start again.`
        : t`It stays suspended, and its payouts stay frozen.`}
    </ReasonDialog>
  )
}
