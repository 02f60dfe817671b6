import { t } from '@lingui/core/macro'
import { TextInput } from '@mantine/core'
import { useState } from 'react'
import type { TopUp } from '#api/payments.ts'
import { useWrite } from '../../api/use-write.ts'
import { chargeText } from '../../format/usd-text.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'

/** Turns the code of a voucher into credit. */
export function RedeemDialog({ customerId, onClose }: { customerId: string; onClose: () => void }) {
  const [code, setCode] = useState('')
  const redeem = useWrite<void, TopUp>(
    () => ({ method: 'POST', path: `customers/${customerId}/vouchers/redeem`, body: { code: code.trim() } }),
    {
      areas: ['credits', 'payments'],
      done: ({ amount_usd }) => t`The voucher has added ${chargeText(amount_usd)} USD.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`Redeem a code`}
      action={t`Redeem`}
      sending={redeem}
      onSubmit={() => redeem.mutate()}
      onClose={onClose}
    >
      <Field name="code">
        <TextInput
          label={t`Code of the voucher`}
          placeholder="XXXXX-XXXXX-XXXXX-XXXXX-XXXXX"
          autoComplete="off"
          spellCheck={false}
          required
          value={code}
          onChange={event => setCode(event.currentTarget.value)}
          data-autofocus
        />
      </Field>
    </FormDialog>
  )
}
