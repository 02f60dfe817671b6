import { t } from '@lingui/core/macro'
import { Button, Radio } from '@mantine/core'
import { useState } from 'react'
import type { PaymentOptions, TopUp } from '#api/payments.ts'
import { randomUuid } from '../../api/random-uuid.ts'
import { useWrite } from '../../api/use-write.ts'
import { hasProvider, paymentWord } from '../../format/payment-words.ts'
import { readAmount } from '../../format/typed-number.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import styles from './credits.module.css'

type Driver = PaymentOptions['drivers'][number]

function driverText(driver: Driver): string {
  const word = paymentWord(driver, t`Bank transfer or invoice`)
  return hasProvider(driver) ? t`Card and other ways, at ${word}` : word
}

/** Its key stays below the 255 characters that the gateway takes, even if each is encoded as nine. */
const AMOUNT_CHARS_MAX = 20
const PRESETS_USD = [10, 25, 50, 100]

/**
 * Starts a top-up. A provider's page opens if there is one; otherwise the instructions appear in the list of top-ups.
 */
export function AddCreditDialog({
  customerId,
  drivers,
  limits: { min_usd, max_usd },
  onClose,
}: {
  customerId: string
  drivers: readonly Driver[]
  limits: Pick<PaymentOptions, 'min_usd' | 'max_usd'>
  onClose: () => void
}) {
  const [amount, setAmount] = useState('25')
  const [driver, setDriver] = useState(drivers[0]!)
  // The same amount that is sent again, for example after a broken connection, starts no second top-up.
  const [drawn] = useState(randomUuid)
  const amountUsd = readAmount(amount)
  const start = useWrite<void, TopUp>(
    () => ({
      method: 'POST',
      path: `customers/${customerId}/top-ups`,
      body: { amount_usd: amountUsd, driver },
      // What is typed may have characters that no header takes, such as "25 €".
      headers: { 'idempotency-key': `${drawn}-${driver}-${encodeURIComponent(amountUsd)}` },
    }),
    {
      areas: ['payments'],
      onDone({ redirect_url }) {
        if (redirect_url !== null) window.location.assign(redirect_url)
        else onClose()
      },
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`Add credit`}
      action={t`Continue`}
      sending={start}
      onSubmit={() => start.mutate()}
      onClose={onClose}
    >
      <Field name="amount_usd">
        <AmountField
          label={t`Amount in USD`}
          description={t`From ${roundUsd(min_usd)} to ${roundUsd(max_usd)} USD`}
          required
          maxLength={AMOUNT_CHARS_MAX}
          value={amount}
          onText={setAmount}
          data-autofocus
        />
      </Field>
      <div className={styles.buttons}>
        {PRESETS_USD.filter(preset => preset >= min_usd && preset <= max_usd).map(preset => (
          <Button key={preset} variant="default" size="compact-md" onClick={() => setAmount(String(preset))}>
            {preset} USD
          </Button>
        ))}
      </div>
      {drivers.length > 1 && (
        <Radio.Group label={t`Pay by`} value={driver} onChange={value => setDriver(value as Driver)}>
          {drivers.map(each => (
            <Radio key={each} value={each} label={driverText(each)} className={styles.choice} />
          ))}
        </Radio.Group>
      )}
    </FormDialog>
  )
}
