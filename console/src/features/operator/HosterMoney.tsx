import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { HosterMoneyShown } from '#api/operator/payouts.ts'
import { hosterMoneyQuery } from '../../api/operator-queries.ts'
import { utcDayText } from '../../format/time-text.ts'
import { chargeText } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { PayoutChanges } from '../../parts/PayoutChanges.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { saidText } from '../../texts/code-text.ts'
import { ClawBackDialog } from './ClawBackDialog.tsx'
import styles from './operator.module.css'
import { ReasonDialog } from './ReasonDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

type Clawback = HosterMoneyShown['clawbacks'][number]

/** What a hoster has, whether it is paid, and what was taken back from it. */
export function HosterMoney({ hosterId, name }: { hosterId: string; name: string }) {
  const money = useQuery(hosterMoneyQuery(hosterId))
  const mayOperate = useMayOperate()
  const [dialog, setDialog] = useState<'freeze' | 'release' | 'take' | Clawback | null>(null)
  const close = () => setDialog(null)
  const isFrozen = money.data !== undefined && money.data.frozen_reason !== null
  return (
    <Panel
      title={t`Earnings`}
      aside={
        mayOperate &&
        money.data !== undefined && (
          <div className={styles.buttons}>
            <Button size="compact-sm" variant="default" onClick={() => setDialog(isFrozen ? 'release' : 'freeze')}>
              {isFrozen ? t`Pay it again` : t`Freeze payouts`}
            </Button>
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => setDialog('take')}
            >{t`Take earnings back`}</Button>
          </div>
        )
      }
    >
      <Loaded query={money} height={160}>
        {data => (
          <div className={styles.form}>
            <Facts
              facts={{
                [t`Balance`]: <Usd usd={data.balance_usd} />,
                [t`Held`]: (
                  <>
                    <Usd usd={data.held_usd} />
                    {data.held_until !== null && t` until ${utcDayText(data.held_until)}`}
                  </>
                ),
                [t`Promotional`]: <Usd usd={data.promotion.share_usd} />,
                [t`Payable`]: <Usd usd={data.payable_usd} />,
                [t`Payouts`]:
                  data.frozen_reason === null ? (
                    <State state="ok">{t`in the next batch`}</State>
                  ) : (
                    <>
                      <State state="danger">{t`frozen`}</State> {saidText(data.frozen_reason, data.frozen_reason_codes)}
                    </>
                  ),
              }}
            />
            <PayoutChanges changes={data.payout_changes} />
            {data.clawbacks.length > 0 && (
              <Clawbacks clawbacks={data.clawbacks} {...(mayOperate && { onReturn: setDialog })} />
            )}
            {(dialog === 'freeze' || dialog === 'release') && (
              <FreezeDialog hosterId={hosterId} name={name} isFrozen={dialog === 'freeze'} onClose={close} />
            )}
            {dialog === 'take' && <ClawBackDialog hosterId={hosterId} name={name} money={data} onClose={close} />}
            {dialog !== null && typeof dialog === 'object' && (
              <ReasonDialog
                title={t`Give ${chargeText(dialog.amount_usd)} USD back to ${name}?`}
                action={t`Give it back`}
                send={reason => ({ method: 'POST', path: `operator/clawbacks/${dialog.id}/return`, body: { reason } })}
                done={t`${name} has ${chargeText(dialog.amount_usd)} USD again.`}
                onClose={close}
              >{t`All of it is payable again. Do this when the dispute was won, or when there was no fraud.`}</ReasonDialog>
            )}
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

function Usd({ usd }: { usd: number }) {
  return (
    <>
      <Balance usd={usd} /> USD
    </>
  )
}

function Clawbacks({
  clawbacks,
  onReturn,
}: {
  clawbacks: readonly Clawback[]
  onReturn?: (clawback: Clawback) => void
}) {
  return (
    <DataTable
      label={t`Taken back`}
      rows={clawbacks}
      keyOf={({ id }) => id}
      columns={[
        { title: t`Taken back`, place: 'name', cell: ({ at }) => <When at={at} />, sortBy: ({ at }) => at },
        { title: t`For`, cell: ({ cause }) => (cause === 'fraud' ? t`fraud` : t`a disputed payment`) },
        { title: t`Reason`, cell: ({ reason }) => reason },
        { title: t`By`, cell: ({ made_by }) => made_by ?? t`the command line` },
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
          cell: clawback =>
            clawback.returned_at !== null ? (
              <State state="off">
                {clawback.return_reason === null ? t`given back` : t`given back: ${clawback.return_reason}`}
              </State>
            ) : (
              onReturn !== undefined && (
                <Button size="compact-sm" variant="default" onClick={() => onReturn(clawback)}>
                  <Trans>
                    Give back<span className="visually-hidden"> {chargeText(clawback.amount_usd)} USD</span>
                  </Trans>
                </Button>
              )
            ),
        },
      ]}
    />
  )
}

function FreezeDialog({
  hosterId,
  name,
  isFrozen,
  onClose,
}: {
  hosterId: string
  name: string
  isFrozen: boolean
  onClose: () => void
}) {
  return (
    <ReasonDialog
      title={isFrozen ? t`Freeze the payouts of ${name}?` : t`Pay ${name} again?`}
      action={isFrozen ? t`Freeze them` : t`Pay it again`}
      isDanger={isFrozen}
      {...(!isFrozen && { reader: t`The audit log keeps it.` })}
      send={reason => ({
        method: 'POST',
        path: `operator/hosters/${hosterId}/${isFrozen ? 'freeze' : 'release'}`,
        body: { reason },
      })}
      done={isFrozen ? t`The payouts of ${name} are frozen.` : t`${name} is paid again.`}
      onClose={onClose}
    >
      {isFrozen
        ? t`It is not paid and cannot move earnings. It still earns, and nothing is taken from it.`
        : t`The next batch pays what is payable.`}
    </ReasonDialog>
  )
}
