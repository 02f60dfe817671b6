import { Button, Checkbox, Modal } from '@mantine/core'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { emptyKey, KeyFields, type KeyInput, keyBody } from './KeyFields.tsx'
import { ManageBox } from './KeyForm.tsx'
import styles from './keys.module.css'

/** Makes a key, and shows its secret once. */
export function NewKey({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const customerId = useCustomerId()
  const [input, setInput] = useState(emptyKey)
  const [secret, setSecret] = useState<string | null>(null)
  const [isStored, setStored] = useState(false)
  const make = useWrite<KeyInput, { key: string }>(
    typed => ({ method: 'POST', path: `customers/${customerId}/keys`, body: keyBody(typed) }),
    { areas: ['keys', 'key-spend'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  const close = () => {
    onClose()
    setInput(emptyKey)
    setSecret(null)
    setStored(false)
    make.reset()
  }
  if (secret !== null) {
    return (
      <Modal
        opened={isOpen}
        onClose={close}
        title={`The key ${input.name}`}
        closeOnClickOutside={false}
        closeOnEscape={isStored}
        withCloseButton={false}
      >
        <div className={styles.secret}>
          <p>This is the only time that the key is shown. Store it now.</p>
          <CodeBlock code={secret} what="the key" />
          <div className={styles.buttons}>
            <CopyButton label="Copy for .env" text={envLines(secret)} what="lines for .env" />
            <CopyButton label="Copy as curl" text={curlLine(secret)} what="a curl command" />
          </div>
          <Checkbox
            label="I have stored the key"
            checked={isStored}
            onChange={event => setStored(event.currentTarget.checked)}
          />
          <Button onClick={close} disabled={!isStored}>
            Close
          </Button>
        </div>
      </Modal>
    )
  }
  return (
    <FormDialog
      isOpen={isOpen}
      title="Make a key"
      action="Make the key"
      sending={make}
      onSubmit={() => make.mutate(input)}
      onClose={close}
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
