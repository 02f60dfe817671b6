import { Button, Checkbox, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import styles from './hoster.module.css'

const scopes = [
  { value: 'serve', label: 'serve', description: 'Connects the agent.' },
  {
    value: 'manage',
    label: 'manage',
    description: 'Changes models, prices, keys and the state, and reads everything.',
  },
  { value: 'read', label: 'read', description: 'Reads everything that belongs to the hoster.' },
]

/** Makes a key of a hoster, and shows it once. */
export function NewHosterKey({ hosterId, onClose }: { hosterId: string; onClose: () => void }) {
  const [name, setName] = useState('')
  const [chosen, setChosen] = useState<string[]>(['serve'])
  const [secret, setSecret] = useState<string | null>(null)
  const [isStored, setStored] = useState(false)
  const make = useWrite<void, { key: string }>(
    () => ({ method: 'POST', path: `hosters/${hosterId}/keys`, body: { name, scopes: chosen } }),
    { areas: ['hoster-keys'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null) {
    return (
      <Modal
        opened
        onClose={onClose}
        title={`The key ${name}`}
        closeOnClickOutside={false}
        closeOnEscape={isStored}
        withCloseButton={false}
      >
        <div className={styles.wide}>
          <p>This is the only time that the key is shown. Store it now.</p>
          <CodeBlock code={secret} what="the key" />
          <Checkbox
            label="I have stored the key"
            checked={isStored}
            onChange={event => setStored(event.currentTarget.checked)}
          />
          <Button onClick={onClose} disabled={!isStored}>
            Close
          </Button>
        </div>
      </Modal>
    )
  }
  return (
    <FormDialog
      title="Make a key"
      action="Make the key"
      sending={make}
      onSubmit={() => make.mutate()}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        required
        maxLength={200}
        value={name}
        onChange={event => setName(event.currentTarget.value)}
        data-autofocus
      />
      <Checkbox.Group label="Scopes" value={chosen} onChange={setChosen}>
        <div className={styles.wide} style={{ paddingTop: 8 }}>
          {scopes.map(scope => (
            <Checkbox key={scope.value} {...scope} />
          ))}
        </div>
      </Checkbox.Group>
    </FormDialog>
  )
}
