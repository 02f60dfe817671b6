import { t } from '@lingui/core/macro'
import { Select } from '@mantine/core'
import { useState } from 'react'
import type { ClawedBack, HosterMoneyShown } from '#api/operator/payouts.ts'
import { randomUuid } from '../../api/random-uuid.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { chargeText, exactUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { ReasonInput } from './ReasonInput.tsx'

const FRAUD = 'fraud'

/** Takes earnings back from a hoster: for proven fraud, or for a payment that its customer disputed. */
export function ClawBackDialog({
  hosterId,
  name,
  money: { balance_usd: balance, disputes },
  onClose,
}: {
  hosterId: string
  name: string
  money: HosterMoneyShown
  onClose: () => void
}) {
  const [cause, setCause] = useState(FRAUD)
  const [amount, setAmount] = useState('')
  const [reason, setReason] = useState('')
  // The same id again takes nothing more.
  const [id] = useState(randomUuid)
  const take = useWrite<void, ClawedBack>(
    () => ({
      method: 'POST',
      path: `operator/hosters/${hosterId}/clawbacks`,
      body: {
        id,
        amount_usd: readAmount(amount),
        reason,
        ...(cause !== FRAUD && { dispute_id: cause }),
      },
    }),
    {
      areas: ['payouts', 'money', 'overview', 'earnings', 'log'],
      done: t`Taken back from ${name}.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`Take earnings back from ${name}`}
      action={t`Take it back`}
      isDanger
      sending={take}
      onSubmit={() => take.mutate()}
      onClose={onClose}
    >
      <Select
        label={t`For`}
        description={t`A disputed payment covers at most what the dispute took.`}
        allowDeselect={false}
        value={cause}
        onChange={value => value !== null && setCause(value)}
        data={[
          { value: FRAUD, label: t`Proven fraud` },
          ...disputes.map(({ id, reference, email, left_usd }) => ({
            value: id,
            label: t`Dispute of ${reference}, ${email ?? t`a deleted customer`}: ${exactUsd(left_usd)} USD`,
          })),
        ]}
      />
      <Field name="amount_usd">
        <AmountField
          label={t`Amount, USD`}
          description={t`The balance is ${chargeText(balance)} USD. If you take more, the hoster owes it, and later earnings pay it first.`}
          required
          value={amount}
          onText={setAmount}
          data-autofocus
        />
      </Field>
      <ReasonInput value={reason} onChange={setReason} reader={t`The hoster reads it, and the audit log keeps it.`} />
    </FormDialog>
  )
}
