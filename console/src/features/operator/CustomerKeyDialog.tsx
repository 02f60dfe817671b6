import { t } from '@lingui/core/macro'
import { Select, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { SecretDialog } from '../../parts/SecretDialog.tsx'

/** Makes a key for a customer, and shows it once. */
export function CustomerKeyDialog({ customerId, onClose }: { customerId: string; onClose: () => void }) {
  const [name, setName] = useState('')
  const [limit, setLimit] = useState('')
  const [reset, setReset] = useState('monthly')
  const [secret, setSecret] = useState<string | null>(null)
  const hasLimit = limit.trim() !== ''
  const make = useWrite<void, { key: string }>(
    () => ({
      method: 'POST',
      path: `operator/customers/${customerId}/keys`,
      body: { name, ...(hasLimit && { spend_limit_usd: readAmount(limit), limit_reset: reset }) },
    }),
    { areas: ['customers'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null)
    return (
      <SecretDialog title={texts.shown(name)} secret={secret} onClose={onClose}>
        <p>{texts.handOver}</p>
      </SecretDialog>
    )
  return (
    <FormDialog title={texts.title} action={texts.action} sending={make} onSubmit={make.mutate} onClose={onClose}>
      <TextInput
        label={texts.name}
        required
        maxLength={200}
        value={name}
        onChange={event => setName(event.currentTarget.value)}
        data-autofocus
      />
      <AmountField label={texts.limit} placeholder={texts.none} value={limit} onText={setLimit} />
      <Select
        label={texts.resets}
        data={[...texts.windows]}
        value={reset}
        onChange={value => setReset(value ?? reset)}
        disabled={!hasLimit}
      />
    </FormDialog>
  )
}

const texts = {
  title: t`Make a key for this customer`,
  action: t`Make the key`,
  name: t`Name`,
  limit: t`Limit in USD`,
  none: t`none`,
  resets: t`Resets`,
  windows: [
    { value: t`daily`, label: t`Every day` },
    { value: t`weekly`, label: t`Every Monday` },
    { value: t`monthly`, label: t`Every month` },
    { value: t`none`, label: t`Never` },
  ],
  shown: (name: string) => t`The key ${name}`,
  handOver: t`Whoever has it spends the credit of this customer. Hand it over in a way that nobody else reads.`,
} as const
