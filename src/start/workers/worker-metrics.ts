import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { Sample } from './messages.ts'
import { createMetricsSum } from './metrics-sum.ts'

/** The metrics of all workers together, and those of the primary. */
export class WorkerMetrics {
  readonly #serving: () => readonly { sample(): Promise<void> }[]
  readonly #sum = createMetricsSum()
  readonly #registry = new Registry()
  readonly #crashes: Counter
  #sampling: Promise<void> | undefined

  /**
   * @param serving returns the workers that are serving; each passes its sample to `update` before `sample`
   * resolves
   */
  constructor(serving: () => readonly { sample(): Promise<void> }[]) {
    this.#serving = serving
    const registers = [this.#registry]
    collectDefaultMetrics({ register: this.#registry })
    new Gauge({
      name: 'switchyard_workers',
      help: 'Workers that serve.',
      registers,
      collect() {
        this.set(serving().length)
      },
    })
    this.#crashes = new Counter({
      name: 'switchyard_worker_crashes_total',
      help: 'Workers that crashed after they had started to serve.',
      registers,
    })
  }

  /** Replaces the sample of a running worker. */
  update(worker: number, sample: Sample): void {
    this.#sum.update(worker, sample)
  }

  /** Called when a worker has ended. */
  retire(worker: number): void {
    this.#sum.retire(worker)
  }

  countCrash(): void {
    this.#crashes.inc()
  }

  /**
   * Returns the text for Prometheus, from new samples of all workers. Concurrent calls share one round of
   * samples.
   */
  async text(): Promise<string> {
    this.#sampling ??= this.#sampleAll().finally(() => {
      this.#sampling = undefined
    })
    await this.#sampling
    return this.#sum.text(await this.#registry.getMetricsAsJSON())
  }

  async #sampleAll(): Promise<void> {
    await Promise.all(this.#serving().map(worker => worker.sample()))
  }
}
