import { Button, Checkbox, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { MadeVouchers } from '#api/operator/payments.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount, readCount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import styles from './operator.module.css'

/** Makes vouchers and shows their codes once. */
export function MakeVouchersDialog({ onClose }: { onClose: () => void }) {
  const [amount, setAmount] = useState('')
  const [count, setCount] = useState('1')
  const [note, setNote] = useState('')
  const [isPaid, setIsPaid] = useState(false)
  const [codes, setCodes] = useState<readonly string[] | null>(null)
  const make = useWrite<void, MadeVouchers>(
    () => ({
      method: 'POST',
      path: 'operator/vouchers',
      body: {
        amount_usd: readAmount(amount),
        count: readCount(count),
        is_promotion: !isPaid,
        ...(note.trim() !== '' && { note }),
      },
    }),
    {
      areas: ['vouchers'],
      onDone: ({ data }) => setCodes(data.map(({ code }) => code)),
      showsError: true,
    },
  )
  if (codes !== null) {
    const text = codes.join('\n')
    return (
      <Modal opened onClose={onClose} title="Shown this once" closeOnClickOutside={false}>
        <div className={styles.form}>
          <p className={styles.hint}>The gateway keeps no copy of these codes.</p>
          <pre className={styles.codes}>{text}</pre>
          <div className={styles.buttons}>
            <CopyButton text={text} what="the codes" label="Copy" />
            <Button onClick={onClose}>I have stored them</Button>
          </div>
        </div>
      </Modal>
    )
  }
  return (
    <FormDialog
      title="Make vouchers"
      action="Make them"
      sending={make}
      onSubmit={() => make.mutate()}
      onClose={onClose}
    >
      <AmountField label="USD for each" required value={amount} onText={setAmount} data-autofocus />
      <TextInput
        label="Number of vouchers"
        inputMode="numeric"
        required
        value={count}
        onChange={event => setCount(event.currentTarget.value)}
      />
      <TextInput
        label="Note"
        description="Only operators see it."
        value={note}
        onChange={event => setNote(event.currentTarget.value)}
      />
      <Checkbox
        label="They are sold"
        description="Without this, their credit is promotion: what it pays to hosters comes from the budget of promotion."
        checked={isPaid}
        onChange={event => setIsPaid(event.currentTarget.checked)}
      />
    </FormDialog>
  )
}
