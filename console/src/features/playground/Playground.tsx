import { Button, Checkbox, SegmentedControl, Select, Textarea, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense, useRef, useState } from 'react'
import { modelsQuery } from '../../api/queries.ts'
import { Problem } from '../../api/request.ts'
import { durationText, plural } from '../../format/number-text.ts'
import { chargeText } from '../../format/usd-text.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { ProblemBlock } from '../../parts/ProblemBlock.tsx'
import { Provider, type ProviderName } from '../../parts/Provider.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import styles from './playground.module.css'
import { type ChatEnd, streamChat } from './stream-chat.ts'
import { usePlaygroundKey } from './use-playground-key.ts'

/** Loads with the first answer. */
const Markdown = lazy(() => import('react-markdown'))

interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: string
  /** Of an answer that has ended. */
  readonly end?: ChatEnd & { readonly elapsedMs: number; readonly isStopped: boolean }
}

/** Talks to a model like any program, and shows what each answer cost. The talk is lost with the tab. */
export function Playground() {
  const customerId = useCustomerId()
  const { mayKeys } = useRights()
  const client = useQueryClient()
  const models = useQuery(modelsQuery(customerId))
  const keyOf = usePlaygroundKey(customerId)
  const [model, setModel] = useState<string | null>(null)
  const [tier, setTier] = useState('balanced')
  const [isPrivate, setPrivate] = useState(false)
  const [isTrusted, setTrusted] = useState(false)
  const [maxCost, setMaxCost] = useState('')
  const [prompt, setPrompt] = useState('')
  const [messages, setMessages] = useState<readonly Message[]>([])
  const [problem, setProblem] = useState<unknown>(null)
  const [shown, setShown] = useState('talk')
  const running = useRef<AbortController | null>(null)
  const [isRunning, setRunning] = useState(false)
  const chosen = model ?? models.data?.data.find(({ features }) => features.includes('chat'))?.id ?? 'auto'
  const bodyOf = (talk: readonly Message[]) => ({
    model: chosen,
    messages: talk.map(({ role, content }) => ({ role, content })),
    tier,
    ...(isPrivate && { privacy_mode: true }),
    ...(isTrusted && { trusted_only: true }),
    ...(maxCost.trim() !== '' && { max_cost_usd: Number(maxCost.replace(',', '.')) }),
  })

  async function send() {
    const talk: Message[] = [...messages, { role: 'user', content: prompt }]
    setMessages([...talk, { role: 'assistant', content: '' }])
    setPrompt('')
    setProblem(null)
    setRunning(true)
    const startedMs = performance.now()
    const abort = new AbortController()
    running.current = abort
    let text = ''
    const show = (end?: Message['end']) =>
      setMessages([...talk, { role: 'assistant', content: text, ...(end && { end }) }])
    try {
      const end = await streamChat(await keyOf(), bodyOf(talk), {
        signal: abort.signal,
        onText(piece) {
          text += piece
          show()
        },
      })
      show({ ...end, elapsedMs: performance.now() - startedMs, isStopped: false })
    } catch (error) {
      if (abort.signal.aborted) {
        const elapsedMs = performance.now() - startedMs
        show({ requestId: null, provider: null, usage: null, elapsedMs, isStopped: true })
      } else {
        setProblem(error)
        // The prompt comes back, so that nothing is lost.
        setMessages(messages)
        setPrompt(prompt)
      }
    } finally {
      setRunning(false)
      for (const area of ['credits', 'usage', 'activity', 'keys']) void client.invalidateQueries({ queryKey: [area] })
    }
  }

  return (
    <Page
      title="Playground"
      actions={
        messages.length > 0 && (
          <Button variant="default" disabled={isRunning} onClick={() => setMessages([])}>
            New talk
          </Button>
        )
      }
    >
      <section className={styles.choices} aria-label="Routing">
        <Select
          label="Model"
          searchable
          data={['auto', ...(models.data?.data.map(({ id }) => id) ?? [])]}
          value={chosen}
          onChange={setModel}
        />
        <Select
          label="Tier"
          data={['cheapest', 'balanced', 'fastest']}
          value={tier}
          onChange={value => setTier(value ?? 'balanced')}
        />
        <TextInput
          label="Most it may cost, USD"
          placeholder="no limit"
          inputMode="decimal"
          value={maxCost}
          onChange={event => setMaxCost(event.currentTarget.value)}
        />
        <Checkbox label="Private" checked={isPrivate} onChange={event => setPrivate(event.currentTarget.checked)} />
        <Checkbox
          label="Trusted hosters"
          checked={isTrusted}
          onChange={event => setTrusted(event.currentTarget.checked)}
        />
      </section>
      <div>
        <SegmentedControl
          aria-label="View"
          data={[
            { value: 'talk', label: 'Talk' },
            { value: 'code', label: 'Code' },
          ]}
          value={shown}
          onChange={setShown}
        />
      </div>
      {shown === 'code' ? (
        <CodeBlock
          code={curlOf(bodyOf([...messages, { role: 'user', content: prompt || 'Hello!' }]))}
          what="the request"
        />
      ) : (
        <Panel>
          <div className={styles.talk} aria-live="polite" aria-busy={isRunning}>
            {messages.length === 0 && (
              <p className={styles.hint}>
                What you send here is charged like any request. It uses a key of its own, which stops after 12 hours and
                spends at most 1 USD a day.
              </p>
            )}
            {messages.map((message, index) => (
              <article key={index} className={styles.message} data-role={message.role}>
                <h3>{message.role === 'user' ? 'You' : chosen}</h3>
                {message.role === 'user' ? (
                  <p className={styles.plain}>{message.content}</p>
                ) : (
                  <Suspense fallback={<p className={styles.plain}>{message.content}</p>}>
                    <Markdown allowedElements={[...shownElements]} unwrapDisallowed>
                      {message.content}
                    </Markdown>
                  </Suspense>
                )}
                {message.end && <End customerId={customerId} end={message.end} />}
              </article>
            ))}
          </div>
        </Panel>
      )}
      {problem !== null && <ProblemBlock error={problem instanceof Problem ? problem : new Error(String(problem))} />}
      <form
        className={styles.prompt}
        onSubmit={event => {
          event.preventDefault()
          if (!isRunning && prompt.trim() !== '') void send()
        }}
      >
        <Textarea
          label="Prompt"
          minRows={2}
          maxRows={12}
          value={prompt}
          onChange={event => setPrompt(event.currentTarget.value)}
          onKeyDown={event => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
          }}
        />
        {isRunning ? (
          <Button variant="default" onClick={() => running.current?.abort()}>
            Stop
          </Button>
        ) : (
          <Button
            type="submit"
            disabled={!mayKeys || prompt.trim() === ''}
            title={mayKeys ? 'Ctrl+Enter' : 'Only owners and developers of this customer may use the playground.'}
          >
            Send
          </Button>
        )}
      </form>
    </Page>
  )
}

/** No images: the address of an image carries data out. No links: an answer must not lead people away. */
const shownElements = [
  ...['p', 'strong', 'em', 'code', 'pre', 'ul', 'ol', 'li', 'blockquote', 'br', 'hr'],
  ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'],
] as const

function End({ customerId, end }: { customerId: string; end: NonNullable<Message['end']> }) {
  const { usage, requestId, provider, elapsedMs, isStopped } = end
  if (isStopped) {
    return (
      <p className={styles.end}>
        <span>Stopped after {durationText(elapsedMs)}. You pay for what was generated.</span>
        <Link to="/c/$customerId/activity" params={{ customerId }}>
          See the charge
        </Link>
      </p>
    )
  }
  return (
    <p className={styles.end}>
      {usage && <span>{chargeText(usage.cost_usd)} USD</span>}
      {usage && <span>{plural(usage.total_tokens, 'token')}</span>}
      <span>{durationText(elapsedMs)}</span>
      {provider !== null && <Provider kind={provider as ProviderName} />}
      {requestId !== null && (
        <Link
          {...({ to: '/c/$customerId/activity/$requestId', params: { customerId, requestId } } as never as { to: '/' })}
        >
          receipt
        </Link>
      )}
    </p>
  )
}

function curlOf(body: object): string {
  const text = JSON.stringify(body, null, 2).replaceAll("'", "'\\''")
  return `curl ${location.origin}/v1/chat/completions \\\n  -H 'Authorization: Bearer YOUR_KEY' \\\n  -H 'Content-Type: application/json' \\\n  -d '${text}'`
}
