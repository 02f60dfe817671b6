import { t } from '@lingui/core/macro'
import { Select, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { CustomerDetail, GrantResult } from '#api/operator/customers.ts'
import { randomUuid } from '../../api/random-uuid.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { chargeText } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'

/** Grants credit in two steps: what would happen, then the grant. A `ref` is granted only once. */
export function GrantDialog({ customer, onClose }: { customer: CustomerDetail; onClose: () => void }) {
  const [amount, setAmount] = useState('')
  const [reason, setReason] = useState('')
  const [kind, setKind] = useState<'paid' | 'promotion' | null>(null)
  const [ref, setRef] = useState('')
  // Without a ref of the operator's, the dialog draws one, so that a repeated click cannot grant twice.
  const [drawn] = useState(() => `console-${randomUuid()}`)
  const [preview, setPreview] = useState<GrantResult | null>(null)
  const path = `operator/customers/${customer.id}/grants`
  const body = () => ({
    amount_usd: readAmount(amount),
    reason,
    // Without a choice, the gateway asks for one.
    ...(kind !== null && { is_promotion: kind === 'promotion' }),
    ref: ref.trim() === '' ? drawn : ref.trim(),
  })
  const tryOut = useWrite<void, GrantResult>(() => ({ method: 'POST', path, body: { ...body(), dry_run: true } }), {
    areas: [],
    onDone: setPreview,
    showsError: true,
  })
  const grant = useWrite<void, GrantResult>(() => ({ method: 'POST', path, body: body() }), {
    areas: ['customers', 'grants', 'overview', 'credits'],
    done: ({ state, amount_usd }) => grantText(state, amount_usd),
    onDone: onClose,
    showsError: true,
  })
  return (
    <FormDialog
      title={t`Grant credit to ${customer.email ?? customer.id}`}
      action={preview === null ? t`See what would happen` : t`Grant it`}
      isDisabled={preview?.state === 'duplicate'}
      sending={{ isPending: tryOut.isPending || grant.isPending, error: tryOut.error ?? grant.error }}
      {...(preview !== null && { back: { label: t`Back`, onClick: () => setPreview(null) } })}
      onSubmit={() => {
        if (preview === null) tryOut.mutate()
        else grant.mutate()
      }}
      onClose={onClose}
    >
      {preview === null ? (
        <>
          <Field name="amount_usd">
            <AmountField label={t`Credit in USD`} required value={amount} onText={setAmount} data-autofocus />
          </Field>
          <Select
            label={t`Kind`}
            description={t`What promotion credit pays to hosters comes from a budget.`}
            required
            placeholder={t`Choose one`}
            value={kind}
            onChange={value => setKind(value as typeof kind)}
            data={[
              { value: 'paid', label: t`Paid, for example by invoice` },
              { value: 'promotion', label: t`Promotion: nobody pays for it` },
            ]}
          />
          <Field name="reason">
            <TextInput
              label={t`Reason`}
              description={t`The customer sees it in the statement.`}
              required
              value={reason}
              onChange={event => setReason(event.currentTarget.value)}
            />
          </Field>
          <Field name="ref">
            <TextInput
              label={t`Reference`}
              description={t`For example the number of a payment. The same reference is granted only once.`}
              value={ref}
              onChange={event => setRef(event.currentTarget.value)}
            />
          </Field>
        </>
      ) : (
        // The field that had the focus is gone, and Enter must not grant before the person has read.
        <section ref={focus} tabIndex={-1} aria-label={t`What would happen`}>
          <Facts
            facts={{
              [t`Grant`]: `${chargeText(preview.amount_usd)} USD`,
              [t`Kind`]: kind,
              [t`Reason`]: reason,
              [t`Balance now`]: `${chargeText(preview.balance_before_usd)} USD`,
              [t`Balance afterwards`]: `${chargeText(preview.balance_after_usd)} USD`,
              [t`Tier`]: preview.tier === preview.tier_after ? preview.tier : `${preview.tier} → ${preview.tier_after}`,
              [t`Note`]:
                preview.state === 'waiting'
                  ? t`A second operator must approve this grant.`
                  : preview.state === 'duplicate'
                    ? t`This reference was granted before. Nothing would change.`
                    : null,
            }}
          />
        </section>
      )}
    </FormDialog>
  )
}

function focus(element: HTMLElement | null): void {
  element?.focus()
}

function grantText(state: GrantResult['state'], amountUsd: number): string {
  if (state === 'waiting') return t`A second operator must approve the grant.`
  if (state === 'duplicate') return t`This reference was granted before. Nothing has changed.`
  return t`${chargeText(amountUsd)} USD are granted.`
}
