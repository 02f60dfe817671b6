import { t } from '@lingui/core/macro'
import { Button, Checkbox, SegmentedControl, Select } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useBlocker, useSearch } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { fromGateway } from '../../api/gateway-link.ts'
import { modelsQuery } from '../../api/queries.ts'
import { Problem } from '../../api/request.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { answersChats } from '../../parts/answers-chats.ts'
import { CodeBlock, CodeTabs } from '../../parts/CodeBlock.tsx'
import { chatCode } from '../../parts/chat-code.ts'
import { Page } from '../../parts/Page.tsx'
import { ProblemBlock } from '../../parts/ProblemBlock.tsx'
import { AddCreditLink } from '../../shell/AddCreditLink.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { codeText } from '../../texts/code-text.ts'
import { ChatSettings } from './ChatSettings.tsx'
import { bodyOf, type ChatSetup, noSetup, withShortImages } from './chat-setup.ts'
import { ModelChoice } from './ModelChoice.tsx'
import { charactersOf, PromptBox } from './PromptBox.tsx'
import styles from './playground.module.css'
import { readPlaygroundSearch, tiers } from './playground-search.ts'
import { Quote } from './Quote.tsx'
import { readTools } from './read-tools.ts'
import { Talk } from './Talk.tsx'
import { hasPrivateTurn, userMessage, waitsForResults } from './talk.ts'
import { useSavedTalk } from './use-saved-talk.ts'
import { type Prompt, useTalk } from './use-talk.ts'

/** These load on demand. */
const LeaveDialog = lazy(fromGateway(async () => ({ default: (await import('./LeaveDialog.tsx')).LeaveDialog })))
const SavedTalks = lazy(fromGateway(async () => ({ default: (await import('./SavedTalks.tsx')).SavedTalks })))

const noPrompt: Prompt = { text: '', images: [] }

/**
 * Talks to models like any program, and shows what each answer costs. Only the browser keeps talks: see `talkStore`.
 */
export function Playground() {
  const customerId = useCustomerId()
  const { mayKeys } = useRights()
  const models = useQuery(modelsQuery(customerId))
  const [linked] = useState(readPlaygroundSearch(useSearch({ strict: false })))
  const [chosenSetup, setSetup] = useState<ChatSetup>({
    ...noSetup,
    tier: linked.tier ?? noSetup.tier,
    models: linked.model === undefined ? [] : [{ slot: 0, model: linked.model }],
  })
  const [prompt, setPrompt] = useState<Prompt>({ ...noPrompt, text: linked.prompt ?? '' })
  // A link alone asks the gateway for nothing, not even for a quote.
  const [isTouched, setTouched] = useState(false)
  const [shown, setShown] = useState('response')
  const [isListing, setListing] = useState(false)
  const talk = useTalk(customerId)
  const { turns, isRunning } = talk

  const offered = models.data?.data ?? []
  const firstModel = offered.find(answersChats)?.id ?? 'auto'
  const setup =
    chosenSetup.models.length > 0 ? chosenSetup : { ...chosenSetup, models: [{ slot: 0, model: firstModel }] }
  const change = (part: Partial<ChatSetup>) => setSetup({ ...setup, ...part })
  const saved = useSavedTalk(customerId, { turns, setup, isRunning })
  const isLostWhenLeft = isRunning && hasPrivateTurn(turns)
  const leaving = useBlocker({
    shouldBlockFn: ({ current, next }) => isLostWhenLeft && current.pathname !== next.pathname,
    enableBeforeUnload: () => isLostWhenLeft,
    withResolver: true,
  })
  const bodies = setup.models.map(chosen => bodyOf(setup, chosen, turns, [userMessage(prompt.text, prompt.images)]))
  const shownBody = withShortImages(bodies[0]!)
  const withoutFeature = (feature: string) =>
    setup.models.find(({ model }) => !offered.some(each => isMeant(each.id, model) && each.features.includes(feature)))

  const refusal = refusalOf({
    mayKeys,
    hasWrongTools: readTools(setup.tools).problem !== null,
    isWaiting: turns.at(-1)?.answers.some(waitsForResults) === true,
  })
  const blind = withoutFeature('images')
  const toolless = readTools(setup.tools).tools.length === 0 ? undefined : withoutFeature('tools')

  async function send() {
    const sent = prompt
    setPrompt(noPrompt)
    setShown('response')
    // The prompt comes back if no model answers, so that nothing is lost.
    if (!(await talk.send(setup, sent))) setPrompt(sent)
  }

  function begin() {
    talk.show([])
    saved.begin()
  }

  return (
    <Page
      title={t`Playground`}
      actions={
        <>
          <Button variant="default" onClick={() => setListing(true)} disabled={isRunning}>{t`Talks`}</Button>
          {turns.length > 0 && <Button variant="default" disabled={isRunning} onClick={begin}>{t`New talk`}</Button>}
        </>
      }
    >
      <section className={styles.choices} aria-label={t`Models`}>
        <ModelChoice
          chosen={setup.models}
          ids={['auto', ...offered.map(({ id }) => id)]}
          isFixed={isRunning}
          onChange={chosen => change({ models: chosen })}
        />
      </section>
      <section className={styles.choices} aria-label={t`Routing`}>
        <Select
          label={t`Tier`}
          data={tiers.map(value => ({ value, label: codeText(value) }))}
          value={setup.tier}
          onChange={tier => change({ tier: tier ?? noSetup.tier })}
        />
        <AmountField
          label={setup.models.length > 1 ? t`Most each answer may cost, USD` : t`Most it may cost, USD`}
          placeholder={t`no limit`}
          value={setup.maxCost}
          onText={maxCost => change({ maxCost })}
        />
        <Checkbox
          label={t`Private`}
          checked={setup.isPrivate}
          onChange={event => change({ isPrivate: event.currentTarget.checked })}
        />
        <Checkbox
          label={t`Trusted hosters`}
          checked={setup.isTrusted}
          onChange={event => change({ isTrusted: event.currentTarget.checked })}
        />
      </section>
      <div>
        <ChatSettings setup={setup} onChange={change} />
      </div>
      {toolless && <p className={styles.wrong}>{t`${toolless.model} does not take functions.`}</p>}
      <div>
        <SegmentedControl
          aria-label={t`View`}
          data={[
            { value: 'request', label: t`Request` },
            { value: 'response', label: t`Response` },
            { value: 'code', label: t({ message: 'Code', context: 'program' }) },
          ]}
          value={shown}
          onChange={setShown}
        />
      </div>
      {shown === 'request' && <CodeBlock code={JSON.stringify(shownBody, null, 2)} what={t`the request`} />}
      {shown === 'code' && <CodeTabs examples={chatCode(shownBody)} />}
      {shown === 'response' && (
        <Talk
          customerId={customerId}
          turns={turns}
          isRunning={isRunning}
          onResults={(answer, results) => void talk.goOn(setup, answer, results)}
        />
      )}
      {talk.problem !== null && (
        <ProblemBlock error={talk.problem instanceof Problem ? talk.problem : new Error(String(talk.problem))} />
      )}
      {talk.problem instanceof Problem && talk.problem.code === 'insufficient_credits' && (
        <div>
          <AddCreditLink customerId={customerId} />
        </div>
      )}
      {saved.problem !== null && <p className={styles.wrong}>{saved.problem}</p>}
      <PromptBox
        prompt={prompt}
        sentImageCharacters={charactersOf(turns.flatMap(({ images }) => images))}
        hint={
          linked.prompt !== undefined && prompt.text === linked.prompt
            ? t`A link filled this in. Read it before you send it.`
            : undefined
        }
        imageRefusal={blind === undefined ? null : t`${blind.model} takes no images.`}
        refusal={refusal}
        isRunning={isRunning}
        onChange={setPrompt}
        onSend={() => void send()}
        onStop={talk.stop}
        onTouch={() => setTouched(true)}
      >
        {/* A quote counts against the limits of requests: four while one types would leave none for the answers. */}
        {setup.models.length === 1 && (
          <Quote
            key={setup.models[0]!.model}
            customerId={customerId}
            body={mayKeys && isTouched && prompt.text.trim() !== '' ? bodies[0]! : null}
          />
        )}
      </PromptBox>
      <Suspense>
        {leaving.status === 'blocked' && <LeaveDialog onLeave={leaving.proceed} onStay={leaving.reset} />}
        {isListing && (
          <SavedTalks
            owner={saved.owner}
            openId={saved.id}
            onOpen={opened => {
              talk.show(opened.turns)
              saved.begin(opened.id)
              setSetup(opened.setup)
            }}
            onDelete={begin}
            onClose={() => setListing(false)}
          />
        )}
      </Suspense>
    </Page>
  )
}

/** Routing chooses among all models for `auto`. */
function isMeant(id: string, model: string): boolean {
  return model === 'auto' || id === model
}

function refusalOf({
  mayKeys,
  hasWrongTools,
  isWaiting,
}: {
  mayKeys: boolean
  hasWrongTools: boolean
  isWaiting: boolean
}): string | null {
  if (!mayKeys) return t`Only owners and developers of this customer may use the playground.`
  if (hasWrongTools) return t`The functions have a mistake.`
  return isWaiting ? t`The model waits for the results of its calls.` : null
}
