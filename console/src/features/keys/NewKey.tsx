import { t } from '@lingui/core/macro'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { emptyKey, KeyFields, type KeyInput } from '../../parts/KeyFields.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { ManageBox, RecordBox } from './KeyForm.tsx'
import { KeySecret } from './KeySecret.tsx'
import { ownKeyBody } from './own-key-body.ts'

/** Makes a key, and shows its secret once. */
export function NewKey({ onClose }: { onClose: () => void }) {
  const customerId = useCustomerId()
  const [input, setInput] = useState(emptyKey)
  const [secret, setSecret] = useState<string | null>(null)
  const make = useWrite<KeyInput, { key: string }>(
    typed => ({ method: 'POST', path: `customers/${customerId}/keys`, body: ownKeyBody(typed) }),
    { areas: ['keys', 'key-spend'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null) {
    return <KeySecret title={t`The key ${input.name}`} secret={secret} onClose={onClose} />
  }
  return (
    <FormDialog
      title={t`Make a key`}
      action={t`Make the key`}
      sending={make}
      onSubmit={() => make.mutate(input)}
      onClose={onClose}
    >
      <KeyFields input={input} onChange={setInput} />
      <ManageBox input={input} onChange={setInput} />
      <RecordBox input={input} onChange={setInput} />
    </FormDialog>
  )
}
