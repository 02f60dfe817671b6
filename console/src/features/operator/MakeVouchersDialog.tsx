import { t } from '@lingui/core/macro'
import { Button, Checkbox, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { MadeVouchers } from '#api/operator/payments.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount, readCount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
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
      <Modal opened onClose={onClose} title={t`Shown this once`}>
        <div className={styles.form}>
          <p className={styles.hint}>{t`The gateway keeps no copy of these codes.`}</p>
          <pre className={styles.codes}>{text}</pre>
          <div className={styles.buttons}>
            <CopyButton text={text} what={t`the codes`} label={t`Copy`} />
            <Button onClick={onClose}>{t`I have stored them`}</Button>
          </div>
        </div>
      </Modal>
    )
  }
  return (
    <FormDialog
      title={t`Make vouchers`}
      action={t`Make them`}
      sending={make}
      onSubmit={() => make.mutate()}
      onClose={onClose}
    >
      <Field name="amount_usd">
        <AmountField label={t`USD for each`} required value={amount} onText={setAmount} data-autofocus />
      </Field>
      <Field name="count">
        <TextInput
          label={t`Number of vouchers`}
          inputMode="numeric"
          required
          value={count}
          onChange={event => setCount(event.currentTarget.value)}
        />
      </Field>
      <Field name="note">
        <TextInput
          label={t`Note`}
          description={t`Only operators see it.`}
          value={note}
          onChange={event => setNote(event.currentTarget.value)}
        />
      </Field>
      <Checkbox
        label={t`They are sold`}
        description={t`Without this, their credit is promotion: what it pays to hosters comes from the budget of promotion.`}
        checked={isPaid}
        onChange={event => setIsPaid(event.currentTarget.checked)}
      />
    </FormDialog>
  )
}
