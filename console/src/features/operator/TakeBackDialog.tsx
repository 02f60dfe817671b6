import { t } from '@lingui/core/macro'
import { Checkbox, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { OperatorPayment } from '#api/operator/payments.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { chargeText } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'

/** Takes back a payment, or a part of it: a refund, or a chargeback of the payer's bank. */
export function TakeBackDialog({ payment, onClose }: { payment: OperatorPayment; onClose: () => void }) {
  const [amount, setAmount] = useState('')
  const [reason, setReason] = useState('')
  const [isChargeback, setIsChargeback] = useState(false)
  const takeBack = useWrite(
    () => ({
      method: 'POST',
      path: `operator/payments/${payment.id}/refunds`,
      body: {
        ...(amount.trim() !== '' && { amount_usd: readAmount(amount) }),
        reason,
        ...(isChargeback && { is_chargeback: true }),
      },
    }),
    {
      areas: ['operator-payments', 'money', 'overview', 'customers'],
      done: t`The payment is taken back.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`Take back ${chargeText(payment.amount_usd)} USD`}
      action={t`Take it back`}
      sending={takeBack}
      onSubmit={() => takeBack.mutate()}
      onClose={onClose}
    >
      <Field name="amount_usd">
        <AmountField
          label={t`Amount in USD`}
          description={t`Empty: all that is left of the payment`}
          value={amount}
          onText={setAmount}
          data-autofocus
        />
      </Field>
      <Field name="reason">
        <TextInput
          label={t`Reason`}
          description={t`The customer sees it.`}
          required
          value={reason}
          onChange={event => setReason(event.currentTarget.value)}
        />
      </Field>
      {payment.driver === 'manual' && (
        <Checkbox
          label={t`A chargeback: the bank has taken the money back`}
          description={t`What is spent already becomes a debt. Requests are refused until it is paid.`}
          checked={isChargeback}
          onChange={event => setIsChargeback(event.currentTarget.checked)}
        />
      )}
    </FormDialog>
  )
}
