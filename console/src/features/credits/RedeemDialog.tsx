import { Button, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { TopUp } from '#api/payments.ts'
import { useWrite } from '../../api/use-write.ts'
import { chargeText } from '../../format/usd-text.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './credits.module.css'

/** Turns the code of a voucher into credit. */
export function RedeemDialog({ customerId, onClose }: { customerId: string; onClose: () => void }) {
  const [code, setCode] = useState('')
  const redeem = useWrite<void, TopUp>(
    () => ({ method: 'POST', path: `customers/${customerId}/vouchers/redeem`, body: { code: code.trim() } }),
    {
      areas: ['credits', 'payments'],
      done: ({ amount_usd }) => `The voucher has added ${chargeText(amount_usd)} USD.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <Modal opened onClose={onClose} title="Redeem a code">
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          redeem.mutate()
        }}
      >
        <TextInput
          label="Code of the voucher"
          placeholder="XXXXX-XXXXX-XXXXX-XXXXX-XXXXX"
          autoComplete="off"
          spellCheck={false}
          required
          value={code}
          onChange={event => setCode(event.currentTarget.value)}
          data-autofocus
        />
        <FormProblem error={redeem.error} />
        <div className={styles.buttons}>
          <Button type="submit" loading={redeem.isPending}>
            Redeem
          </Button>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </Modal>
  )
}
