import { plural, t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { Button, Checkbox, NumberInput, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { ProviderTrial } from '#api/operator/providers.ts'
import { useWrite } from '../../api/use-write.ts'
import { compactCount, durationText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { State } from '../../parts/State.tsx'
import { type Entry, hasCost, type ModelChoice, newChoice, repriced, soldEntry, withCost } from './model-entries.ts'
import styles from './operator.module.css'

/** More would make a dialog slow. The filter finds the others. */
const SHOWN_MAX = 60

/** The request of a trial, without the model. */
export interface TrialOrder {
  readonly name?: string
  readonly settings: Entry
  readonly secrets?: Readonly<Record<string, string>>
}

/**
 * Models to tick, with the prices that customers pay, and a trial of each.
 *
 * @param props.order what the trial of a model sends
 */
export function ModelChoices({
  choices,
  percent,
  order,
  onChange,
  onPercent,
}: {
  choices: readonly ModelChoice[]
  percent: number
  order: TrialOrder
  onChange: (choices: readonly ModelChoice[]) => void
  onPercent: (percent: number) => void
}) {
  const [filter, setFilter] = useState('')
  const [added, setAdded] = useState('')
  const wanted = filter.trim().toLowerCase()
  const matching = choices.filter(({ id, isChosen }) => isChosen || id.toLowerCase().includes(wanted))
  const shown = matching.toSorted((a, b) => Number(b.isChosen) - Number(a.isChosen)).slice(0, SHOWN_MAX)
  const chosen = choices.filter(({ isChosen }) => isChosen)
  const withoutCost = chosen.filter(choice => !hasCost(choice)).map(({ id }) => id)
  const change = (changed: ModelChoice) => onChange(choices.map(each => (each.id === changed.id ? changed : each)))
  return (
    <>
      <div className={styles.filters}>
        <TextInput label={t`Find a model`} value={filter} onChange={event => setFilter(event.currentTarget.value)} />
        <NumberInput
          label={t`Sold at, % of what it costs you`}
          description={t`Changes all prices below whose cost is known`}
          min={0}
          max={10_000}
          value={percent}
          onChange={value => {
            const next = Number(value)
            onPercent(next)
            onChange(choices.map(choice => repriced(choice, next)))
          }}
        />
      </div>
      {withoutCost.length > 0 && (
        <State state="warn">{t`The percentage does not change the price of ${withoutCost.slice(0, 3).join(', ')}${withoutCost.length > 3 ? ', …' : ''}: enter what it costs you.`}</State>
      )}
      {shown.map(choice => (
        <ChoiceRow
          key={choice.id}
          choice={choice}
          path={`settings.models[${chosen.indexOf(choice)}]`}
          percent={percent}
          order={order}
          onChange={change}
        />
      ))}
      {matching.length > shown.length && (
        <p className={styles.hint}>
          <Trans>
            <Plural value={matching.length - shown.length} one="# more model" other="# more models" />: type a part of
            the name.
          </Trans>
        </p>
      )}
      <div className={styles.buttons}>
        <TextInput
          aria-label={t`Another model`}
          placeholder={t`The id of another model`}
          value={added}
          onChange={event => setAdded(event.currentTarget.value)}
        />
        <Button
          variant="default"
          disabled={added.trim() === '' || choices.some(({ id }) => id === added.trim())}
          onClick={() => {
            const id = added.trim()
            onChange([...choices, newChoice({ id }, percent)])
            setAdded('')
          }}
        >{t`Add the model`}</Button>
      </div>
    </>
  )
}

function ChoiceRow({
  choice,
  path,
  percent,
  order,
  onChange,
}: {
  choice: ModelChoice
  /** The path of the model in the body of the request. */
  path: string
  percent: number
  order: TrialOrder
  onChange: (choice: ModelChoice) => void
}) {
  const { id, entry, isChosen, input, output, cost } = choice
  const { context_tokens: context, cost_per_million_usd: listCost } = entry
  const trial = useWrite<void, ProviderTrial>(
    () => ({
      method: 'POST',
      path: 'operator/provider-trials',
      body: { ...order, settings: { ...order.settings, models: [soldEntry(choice)] }, model: id },
    }),
    { areas: [], showsError: true },
  )
  const facts = [
    typeof context === 'number' && t`${compactCount(context)} context`,
    listCost === undefined
      ? t`no list price is known`
      : t`costs you ${String((listCost as Entry).input)} / ${String((listCost as Entry).output)} USD`,
  ]
  return (
    <fieldset className={styles.choice}>
      <Checkbox
        label={id}
        description={facts.filter(Boolean).join(' · ')}
        checked={isChosen}
        onChange={event => onChange({ ...choice, isChosen: event.currentTarget.checked })}
      />
      {isChosen && cost !== null && (
        <div className={styles.filters}>
          <Field name={`${path}.cost_per_million_usd.input`}>
            <AmountField
              label={t`Input cost of ${id}`}
              description={t`What the provider charges you: USD per million tokens`}
              required={cost.output !== ''}
              withAsterisk={false}
              value={cost.input}
              onText={input => onChange(withCost(choice, { ...cost, input }, percent))}
            />
          </Field>
          <Field name={`${path}.cost_per_million_usd.output`}>
            <AmountField
              label={t`Output cost of ${id}`}
              description={t`What the provider charges you: USD per million tokens`}
              required={cost.input !== ''}
              withAsterisk={false}
              value={cost.output}
              onText={output => onChange(withCost(choice, { ...cost, output }, percent))}
            />
          </Field>
        </div>
      )}
      {isChosen && (
        <div className={styles.filters}>
          <Field name={`${path}.price_per_million_usd.input`}>
            <AmountField
              label={t`Input price of ${id}`}
              description={t`What customers pay: USD per million tokens`}
              required
              value={input}
              onText={input => onChange({ ...choice, input })}
            />
          </Field>
          <Field name={`${path}.price_per_million_usd.output`}>
            <AmountField
              label={t`Output price of ${id}`}
              description={t`What customers pay: USD per million tokens`}
              required
              value={output}
              onText={output => onChange({ ...choice, output })}
            />
          </Field>
        </div>
      )}
      {isChosen && (
        <div className={styles.buttons}>
          <Button
            variant="default"
            loading={trial.isPending}
            disabled={input === '' || output === ''}
            aria-label={t`Test ${id}`}
            onClick={() => trial.mutate()}
          >{t`Test`}</Button>
          <TrialResult trial={trial.data} error={trial.error} />
        </div>
      )}
    </fieldset>
  )
}

function TrialResult({ trial, error }: { trial: ProviderTrial | undefined; error: Error | null }) {
  if (error !== null) return <State state="danger">{error.message}</State>
  if (trial === undefined) return null
  if (trial.problem !== null) return <State state="danger">{trial.problem}</State>
  const { text, total_ms, cost_usd, output_tokens } = trial
  const facts = [
    durationText(total_ms),
    output_tokens !== null && plural(output_tokens, { one: '# token', other: '# tokens' }),
    cost_usd !== null && `${exactUsd(cost_usd)} USD`,
  ]
  return (
    <State state="ok">{t`answers${text === null ? '' : ` “${text.slice(0, 60)}”`}, ${facts.filter(Boolean).join(', ')}`}</State>
  )
}
