import { t } from '@lingui/core/macro'
import { useState } from 'react'
import type { Key } from '#api/keys.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { emptyKey, KeyFields, type KeyInput, keyBody, keyInputOf } from '../../parts/KeyFields.tsx'
import { SecretDialog } from '../../parts/SecretDialog.tsx'

/** Makes a key for a customer, and shows it once. */
export function CustomerKeyDialog({ customerId, onClose }: { customerId: string; onClose: () => void }) {
  const [input, setInput] = useState<KeyInput>(emptyKey)
  const [secret, setSecret] = useState<string | null>(null)
  const make = useWrite<void, { key: string }>(
    () => ({ method: 'POST', path: `operator/customers/${customerId}/keys`, body: keyBody(input) }),
    { areas: ['customers'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null)
    return (
      <SecretDialog title={t`The key ${input.name}`} secret={secret} onClose={onClose}>
        <p>{t`Whoever has it spends the credit of this customer. Hand it over in a way that nobody else reads.`}</p>
      </SecretDialog>
    )
  return (
    <FormDialog
      title={t`Make a key for this customer`}
      action={t`Make the key`}
      sending={make}
      onSubmit={() => make.mutate()}
      onClose={onClose}
    >
      <KeyFields input={input} onChange={setInput} />
    </FormDialog>
  )
}

/** Changes a key of a customer: what the customer may change too, but for what the key may read and record. */
export function ChangeKeyDialog({
  customerId,
  edited,
  onClose,
}: {
  customerId: string
  edited: Key
  onClose: () => void
}) {
  const [input, setInput] = useState<KeyInput>(() => keyInputOf(edited))
  const change = useWrite(
    () => ({ method: 'PATCH', path: `operator/customers/${customerId}/keys/${edited.id}`, body: keyBody(input) }),
    { areas: ['customers'], done: t`The key is changed.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`Change ${edited.name}`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      <KeyFields input={input} focus="limit" isNewLimit={edited.limit_usd === null} onChange={setInput} />
    </FormDialog>
  )
}
