import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Modal, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Earnings } from '#api/earnings.ts'
import type { EnrolledAccountShown, PayoutAccountShown } from '#api/payouts.ts'
import type { PayoutDriverName } from '../../../../src/base/domain/money-drivers.ts'
import { payoutAccountQuery } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { payoutWord } from '../../format/payout-words.ts'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { PayoutChanges } from '../../parts/PayoutChanges.tsx'
import { State } from '../../parts/State.tsx'
import { useHosterRights } from '../../shell/use-hoster.ts'
import { useSession } from '../../shell/use-session.ts'
import { codeText } from '../../texts/code-text.ts'
import styles from './hoster.module.css'
import { MoveDialog } from './MoveDialog.tsx'

const marks = { ready: 'ok', pending: 'warn', refused: 'danger' } as const

/** Where the hoster is paid, and the customer that gets earnings as credit. */
export function PayoutAccount({ hosterId, payable }: { hosterId: string; payable: Earnings }) {
  const account = useQuery(payoutAccountQuery(hosterId))
  const { mayEarnings, mayPeople } = useHosterRights()
  const { memberships } = useSession()
  const [dialog, setDialog] = useState<'account' | 'customer' | 'move' | null>(null)
  const close = () => setDialog(null)
  const nameOf = (id: string) => memberships.find(each => each.customer_id === id)?.email ?? id
  return (
    <Panel
      title={t`Payout account`}
      aside={
        mayEarnings && (
          <div className={styles.buttons}>
            <Button
              size="compact-sm"
              variant="default"
              disabled={account.data === undefined}
              onClick={() => setDialog('account')}
            >
              {account.data?.driver == null ? t`Name an account` : t`Change the account`}
            </Button>
            <Button
              size="compact-sm"
              variant="default"
              // Which dialog comes first depends on the account, so the button waits for it.
              disabled={account.data === undefined || payable.balance_usd <= 0 || payable.frozen_reason !== null}
              title={payable.balance_usd <= 0 ? t`There is nothing to move.` : undefined}
              onClick={() => setDialog(account.data?.customer_id === null ? 'customer' : 'move')}
            >{t`Spend it here`}</Button>
          </div>
        )
      }
    >
      <Loaded query={account} height={96}>
        {data => (
          <>
            {data.driver === null ? (
              <EmptyState
                text={t`No account is named yet, so nothing can be paid out. A verified payout account also raises the cap of the trust score.`}
              />
            ) : (
              <Facts
                facts={{
                  [t`How`]: payoutWord(data.driver, t`bank transfer`),
                  [t`Holder`]: data.holder,
                  [t`Account`]: data.account === null ? null : <code>{data.account}</code>,
                  [t`State`]:
                    data.state === null ? null : <State state={marks[data.state]}>{codeText(data.state)}</State>,
                  [t`Missing`]: data.note,
                  [t`Spends earnings`]: data.customer_id === null ? null : nameOf(data.customer_id),
                }}
              />
            )}
            <PayoutChanges changes={data.changes} nameOf={nameOf} {...(mayPeople && { stopAt: hosterId })} />
            {dialog === 'account' && <AccountDialog hosterId={hosterId} account={data} onClose={close} />}
            {dialog === 'customer' && <CustomerDialog hosterId={hosterId} onClose={close} />}
            {dialog === 'move' && data.customer_id !== null && (
              <MoveDialog
                hosterId={hosterId}
                earnings={payable}
                customer={nameOf(data.customer_id)}
                onClose={close}
                onOther={() => setDialog('customer')}
              />
            )}
          </>
        )}
      </Loaded>
    </Panel>
  )
}

function AccountDialog({
  hosterId,
  account,
  onClose,
}: {
  hosterId: string
  account: PayoutAccountShown
  onClose: () => void
}) {
  const [driver, setDriver] = useState<PayoutDriverName>(account.driver ?? account.drivers[0] ?? 'csv')
  const [holder, setHolder] = useState(account.holder ?? '')
  const [number, setNumber] = useState('')
  const save = useWrite<void, EnrolledAccountShown>(
    () => ({
      method: 'POST',
      path: `hosters/${hosterId}/payout-account`,
      body: driver === 'csv' ? { driver, holder, account: number } : { driver },
    }),
    {
      areas: ['earnings', 'hoster'],
      done: t`The payout account waits until the change takes effect.`,
      onDone: ({ url }) => {
        onClose()
        if (url !== null) location.assign(url)
      },
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`Payout account`}
      action={driver === 'csv' ? t`Save` : t`Go on to ${payoutWord(driver, '')}`}
      sending={save}
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      {account.drivers.length > 1 && (
        <Select
          label={t`How`}
          data={account.drivers.map(value => ({ value, label: payoutWord(value, t`Bank transfer`) }))}
          value={driver}
          onChange={value => setDriver((value ?? 'csv') as typeof driver)}
        />
      )}
      {driver === 'csv' ? (
        <>
          <Field name="holder">
            <TextInput
              label={t`Account holder`}
              required
              value={holder}
              onChange={event => setHolder(event.currentTarget.value)}
              data-autofocus
            />
          </Field>
          <Field name="account">
            <TextInput
              label={t`Account number`}
              description={t`IBAN or the number of your country. Later only its last four characters are shown.`}
              required
              autoComplete="off"
              value={number}
              onChange={event => setNumber(event.currentTarget.value)}
            />
          </Field>
        </>
      ) : (
        <p>
          <Trans>{payoutWord(driver, '')} asks for the details on its own page and sends you back.</Trans>
        </p>
      )}
    </FormDialog>
  )
}

function CustomerDialog({ hosterId, onClose }: { hosterId: string; onClose: () => void }) {
  const own = useSession().memberships.filter(({ role }) => role === 'owner' || role === 'billing')
  const [customerId, setCustomerId] = useState(own[0]?.customer_id ?? null)
  const save = useWrite(
    () => ({ method: 'POST', path: `hosters/${hosterId}/payout-customer`, body: { customer_id: customerId } }),
    {
      areas: ['earnings'],
      done: t`The customer waits until the change takes effect.`,
      onDone: onClose,
      showsError: true,
    },
  )
  const title = t`Which customer gets it?`
  if (own.length === 0) {
    return (
      <Modal opened onClose={onClose} title={title}>
        <EmptyState text={t`You are not an owner of a customer, nor in charge of its billing.`} />
      </Modal>
    )
  }
  return (
    <FormDialog
      title={title}
      action={t`Save`}
      isDisabled={customerId === null}
      sending={save}
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <Field name="customer_id">
        <Select
          label={t`Customer`}
          description={t`Earnings become credit of this customer. A change takes effect later, so that owners can stop it.`}
          data={own.map(({ customer_id: value, email: label }) => ({ value, label }))}
          value={customerId}
          onChange={setCustomerId}
        />
      </Field>
    </FormDialog>
  )
}
