import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { modelsQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { CodeTabs } from '../../parts/CodeBlock.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { baseUrl, chatCode } from '../../parts/chat-code.ts'
import { Panel } from '../../parts/Panel.tsx'
import styles from './home.module.css'

/**
 * The base URL and a request in three languages. On a new customer's page it waits for the first request, which live
 * updates then show.
 */
export function FirstSteps({
  customerId,
  hasKey,
  mayKeys,
  isFolded = false,
}: {
  customerId: string
  hasKey: boolean
  mayKeys: boolean
  isFolded?: boolean
}) {
  const models = useQuery(modelsQuery(customerId))
  const [isOpen, setOpen] = useState(!isFolded)
  const [secret, setSecret] = useState<string | null>(null)
  const make = useWrite<void, { key: string }>(
    () => ({
      method: 'POST',
      path: `customers/${customerId}/keys`,
      body: { name: hasKey ? 'quick start' : 'first key' },
    }),
    { areas: ['keys', 'key-spend'], onDone: ({ key }) => setSecret(key) },
  )
  const chatModels = models.data?.data.filter(({ features }) => features.includes('chat')) ?? []
  const model = (chatModels.find(({ demo }) => !demo) ?? chatModels[0])?.id ?? 'demo'
  return (
    <Panel
      title={isFolded ? 'Use it in your program' : 'Send the first request'}
      aside={
        isFolded && (
          <Button variant="subtle" size="compact-sm" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Hide the code' : 'Show the code'}
          </Button>
        )
      }
    >
      <div className={styles.steps}>
        <p className={styles.baseUrl}>
          Base URL <code>{baseUrl()}</code> <CopyButton text={baseUrl()} what="the base URL" />
        </p>
        {isOpen && (
          <>
            {secret === null && mayKeys && (
              <div className={styles.keyLine}>
                <p>
                  {hasKey
                    ? 'Put your API key in place of YOUR_KEY. It was shown once, when it was made.'
                    : 'A program needs an API key.'}
                </p>
                <Button variant="default" size="compact-md" loading={make.isPending} onClick={() => make.mutate()}>
                  {hasKey ? 'Make a new key for this code' : 'Make a key for this code'}
                </Button>
              </div>
            )}
            {secret !== null && (
              <p className={styles.baseUrl} role="status">
                Your key, which is shown only now: <code className={styles.secret}>{secret}</code>{' '}
                <CopyButton text={secret} what="the key" />
              </p>
            )}
            <CodeTabs
              examples={chatCode({ model, messages: [{ role: 'user', content: 'Hello!' }] }, secret ?? undefined)}
            />
            {!isFolded && (
              <p className={styles.waiting} role="status">
                <span className={styles.pulse} aria-hidden="true" />
                Waiting for your first request. It appears here within seconds.
              </p>
            )}
          </>
        )}
      </div>
    </Panel>
  )
}
