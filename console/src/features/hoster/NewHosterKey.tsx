import { Checkbox, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { SecretDialog } from '../../parts/SecretDialog.tsx'
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
  const make = useWrite<void, { key: string }>(
    () => ({ method: 'POST', path: `hosters/${hosterId}/keys`, body: { name, scopes: chosen } }),
    { areas: ['hoster-keys'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null) {
    return <SecretDialog title={`The key ${name}`} secret={secret} onClose={onClose} />
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
