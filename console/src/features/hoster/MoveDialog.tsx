import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Earnings } from '#api/earnings.ts'
import type { MovedEarningsShown } from '#api/payouts.ts'
import { randomUuid } from '../../api/random-uuid.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { chargeText, exactUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import styles from './hoster.module.css'

/** Moves earnings to the balance of a customer: first what would happen, then the move. */
export function MoveDialog({
  hosterId,
  earnings,
  customer,
  onClose,
  onOther,
}: {
  hosterId: string
  earnings: Earnings
  customer: string
  onClose: () => void
  onOther: () => void
}) {
  const [amount, setAmount] = useState(exactUsd(earnings.balance_usd))
  const [isSure, setSure] = useState(false)
  // The same id again moves nothing more.
  const [id] = useState(randomUuid)
  const move = useWrite<void, MovedEarningsShown>(
    () => ({
      method: 'POST',
      path: `hosters/${hosterId}/earnings/move`,
      body: { id, amount_usd: readAmount(amount) },
    }),
    {
      areas: ['earnings', 'credits'],
      done: ({ moved_usd }) => t`${chargeText(moved_usd)} USD are credit of ${customer} now.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`Spend earnings here`}
      action={isSure ? t`Move it` : t`Next`}
      sending={move}
      {...(isSure && { back: { label: t`Back`, onClick: () => setSure(false) } })}
      onSubmit={() => {
        if (isSure) move.mutate()
        else setSure(true)
      }}
      onClose={onClose}
    >
      {isSure ? (
        <p>
          <Trans>
            <b>{readAmount(amount)} USD</b> leave the hoster and become credit of <b>{customer}</b>. Credit cannot be
            paid out again.
          </Trans>
        </p>
      ) : (
        <>
          <Field name="amount_usd">
            <AmountField
              label={t`Amount, USD`}
              description={t`Up to ${exactUsd(earnings.balance_usd)}, including held earnings.`}
              required
              value={amount}
              onText={setAmount}
              data-autofocus
            />
          </Field>
          <p className={styles.hint}>
            <Trans>
              To {customer}.{' '}
              <Button variant="subtle" size="compact-sm" onClick={onOther}>
                Another customer
              </Button>
            </Trans>
          </p>
        </>
      )}
    </FormDialog>
  )
}
