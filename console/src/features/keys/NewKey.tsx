import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { SecretDialog } from '../../parts/SecretDialog.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { emptyKey, KeyFields, type KeyInput, keyBody } from './KeyFields.tsx'
import { ManageBox } from './KeyForm.tsx'
import styles from './keys.module.css'

/** Makes a key, and shows its secret once. */
export function NewKey({ onClose }: { onClose: () => void }) {
  const customerId = useCustomerId()
  const [input, setInput] = useState(emptyKey)
  const [secret, setSecret] = useState<string | null>(null)
  const make = useWrite<KeyInput, { key: string }>(
    typed => ({ method: 'POST', path: `customers/${customerId}/keys`, body: keyBody(typed) }),
    { areas: ['keys', 'key-spend'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null) {
    return (
      <SecretDialog title={`The key ${input.name}`} secret={secret} onClose={onClose}>
        <div className={styles.buttons}>
          <CopyButton label="Copy for .env" text={envLines(secret)} what="lines for .env" />
          <CopyButton label="Copy as curl" text={curlLine(secret)} what="a curl command" />
        </div>
      </SecretDialog>
    )
  }
  return (
    <FormDialog
      title="Make a key"
      action="Make the key"
      sending={make}
      onSubmit={() => make.mutate(input)}
      onClose={onClose}
    >
      <KeyFields input={input} onChange={setInput} />
      <ManageBox input={input} onChange={setInput} />
    </FormDialog>
  )
}

function envLines(key: string): string {
  return `OPENAI_API_KEY=${key}\nOPENAI_BASE_URL=${location.origin}/v1\n`
}

function curlLine(key: string): string {
  return `curl ${location.origin}/v1/models -H 'Authorization: Bearer ${key}'`
}
