import { t } from '@lingui/core/macro'
import { ActionIcon, Button, Select } from '@mantine/core'
import { CloseIcon } from '../../parts/icons.tsx'
import { type ChosenModel, MODELS_MAX } from './chat-setup.ts'
import styles from './playground.module.css'

/** One to four models, which answer side by side. */
export function ModelChoice({
  chosen,
  ids,
  isFixed,
  onChange,
}: {
  chosen: readonly ChosenModel[]
  ids: readonly string[]
  /** While they answer. */
  isFixed: boolean
  onChange: (chosen: readonly ChosenModel[]) => void
}) {
  const isComparing = chosen.length > 1
  const add = () => {
    const slot = Math.max(...chosen.map(each => each.slot)) + 1
    const model = ids.find(id => id !== 'auto' && !chosen.some(each => each.model === id)) ?? chosen[0]!.model
    onChange([...chosen, { slot, model }])
  }
  return (
    <>
      {chosen.map(({ slot, model }, index) => (
        <div key={slot} className={styles.model}>
          <Select
            label={isComparing ? t`Model ${index + 1}` : t`Model`}
            searchable
            disabled={isFixed}
            data={[...new Set([...ids, model])]}
            value={model}
            onChange={id => onChange(chosen.with(index, { slot, model: id ?? model }))}
          />
          {isComparing && (
            <ActionIcon
              aria-label={t`Remove model ${index + 1}`}
              disabled={isFixed}
              onClick={() => onChange(chosen.toSpliced(index, 1))}
            >
              <CloseIcon />
            </ActionIcon>
          )}
        </div>
      ))}
      {chosen.length < MODELS_MAX && (
        <Button variant="default" disabled={isFixed} onClick={add}>{t`Compare with another model`}</Button>
      )}
    </>
  )
}
