import { t } from '@lingui/core/macro'
import { Select, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { CustomerDetail } from '#api/operator/customers.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount, readCount } from '../../format/typed-number.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'

/** Changes the tier and the limits of a customer. An empty limit is that of the tier. */
export function LimitsDialog({ customer, onClose }: { customer: CustomerDetail; onClose: () => void }) {
  const { limits } = customer
  const shown = (own: number | null) => (own === null ? '' : exactUsd(own))
  const [tier, setTier] = useState(customer.tier)
  const [perMinute, setPerMinute] = useState(shown(limits.requests_per_minute.own))
  const [perDay, setPerDay] = useState(shown(limits.requests_per_day.own))
  const [cap, setCap] = useState(shown(limits.daily_spend_cap_usd.own))
  const orTier = <T,>(text: string, read: (text: string) => T) => (text.trim() === '' ? null : read(text))
  const change = useWrite(
    () => ({
      method: 'PATCH',
      path: `operator/customers/${customer.id}`,
      body: {
        tier,
        limits: {
          requests_per_minute: orTier(perMinute, readCount),
          requests_per_day: orTier(perDay, readCount),
          daily_spend_cap_usd: orTier(cap, readAmount),
        },
      },
    }),
    { areas: ['customers'], done: t`The limits are changed.`, onDone: onClose, showsError: true },
  )
  const empty = ({ tier }: { tier: number }) => t`Empty: ${tier}, the limit of the tier ${customer.tier}`
  const count = (label: string, limit: { tier: number }, value: string, set: (text: string) => void) => (
    <TextInput
      label={label}
      description={empty(limit)}
      inputMode="numeric"
      value={value}
      onChange={event => set(event.currentTarget.value)}
    />
  )
  return (
    <FormDialog
      title={t`Tier and limits`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      <Select label={t`Tier`} data={customer.tiers} value={tier} onChange={value => setTier(value ?? tier)} />
      {count(t`Requests per minute`, limits.requests_per_minute, perMinute, setPerMinute)}
      {count(t`Requests per day`, limits.requests_per_day, perDay, setPerDay)}
      <AmountField
        label={t`Daily spend cap in USD`}
        description={empty(limits.daily_spend_cap_usd)}
        value={cap}
        onText={setCap}
      />
    </FormDialog>
  )
}
