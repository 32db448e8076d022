import { filledText, isNothing, wholeNumber } from './arguments.js';

const TIME_MAX = 8_640_000_000_000_000;

/** The place and the parties of an event. */
export interface EventSourceFields {
  /** Milliseconds since 1970. */
  time?: number | null;
  principals?: readonly string[] | null;
  location?: EventLocation | EventLocationFields | null;
}

export interface EventLocationFields {
  ipAddress?: string | null;
  ipv6?: boolean | null;
  isp?: string | null;
  domain?: string | null;
  country?: string | null;
  region?: string | null;
  city?: string | null;
  /** In degrees. */
  latitude?: number | null;
  longitude?: number | null;
  timezone?: string | null;
  zipcode?: string | null;
  /** In metres. */
  elevation?: number | null;
}

export class EventLocation {
  readonly #fields: EventLocationFields;

  constructor(fields: EventLocationFields = {}) {
    this.#fields = { ...fields };
  }

  getIpAddress(): string | null {
    return this.#fields.ipAddress ?? null;
  }

  getIpv6(): boolean | null {
    return this.#fields.ipv6 ?? null;
  }

  getIsp(): string | null {
    return this.#fields.isp ?? null;
  }

  getDomain(): string | null {
    return this.#fields.domain ?? null;
  }

  getCountry(): string | null {
    return this.#fields.country ?? null;
  }

  getRegion(): string | null {
    return this.#fields.region ?? null;
  }

  getCity(): string | null {
    return this.#fields.city ?? null;
  }

  getLatitude(): number | null {
    return this.#fields.latitude ?? null;
  }

  getLongitude(): number | null {
    return this.#fields.longitude ?? null;
  }

  getTimezone(): string | null {
    return this.#fields.timezone ?? null;
  }

  getZipcode(): string | null {
    return this.#fields.zipcode ?? null;
  }

  getElevation(): number | null {
    return this.#fields.elevation ?? null;
  }

  toString(): string {
    return `EventLocation ${JSON.stringify(this)}`;
  }

  toJSON(): EventLocationFields {
    return {
      ipAddress: this.getIpAddress(),
      ipv6: this.getIpv6(),
      isp: this.getIsp(),
      domain: this.getDomain(),
      country: this.getCountry(),
      region: this.getRegion(),
      city: this.getCity(),
      latitude: this.getLatitude(),
      longitude: this.getLongitude(),
      timezone: this.getTimezone(),
      zipcode: this.getZipcode(),
      elevation: this.getElevation(),
    };
  }
}

export class EventSource {
  readonly #time: number | null;
  readonly #principals: readonly string[];
  readonly #location: EventLocation;

  constructor({ time = null, principals = null, location = null }: EventSourceFields = {}) {
    this.#time = isNothing(time) ? null : wholeNumber(time, 'time', 0, TIME_MAX);
    this.#principals = [...(principals ?? [])];
    this.#location = location instanceof EventLocation ? location : new EventLocation(location ?? {});
  }

  /** Milliseconds since 1970. */
  getTime(): number | null {
    return this.#time;
  }

  getPrincipals(): readonly string[] {
    return this.#principals;
  }

  getLocation(): EventLocation {
    return this.#location;
  }

  toString(): string {
    return `EventSource [time=${this.#time}, principals=${this.#principals.join(', ')}, location=${this.#location}]`;
  }

  toJSON(): Record<string, unknown> {
    return { time: this.#time, principals: this.#principals, location: this.#location };
  }
}

type Source = EventSource | EventSourceFields;
type Attributes = Readonly<Record<string, string>> | null;

/** An event: its type, when and where it was observed, and a description. */
export class RengineEvent {
  static readonly EventSource = EventSource;
  static readonly EventLocation = EventLocation;

  readonly #type: string;
  readonly #observedTime: number;
  readonly #source: EventSource;
  readonly #body: string | null;
  readonly #attributes: Readonly<Record<string, string>>;

  constructor(type: string, source: Source, body?: string | null, attributes?: Attributes);
  /** `observedTime` is in milliseconds since 1970; now if omitted. */
  constructor(type: string, observedTime: number, source: Source, body?: string | null, attributes?: Attributes);
  constructor(type: string, ...rest: unknown[]) {
    const [time, source, body = null, attributes] = typeof rest[0] === 'number' ? rest : [Date.now(), ...rest];
    this.#type = filledText(type, 'type');
    this.#observedTime = wholeNumber(time, 'observedTime', 1, TIME_MAX);
    if (typeof source !== 'object' || source === null) throw new TypeError('`source` is an object, and is required');
    this.#source = source instanceof EventSource ? source : new EventSource(source);
    this.#body = isNothing(body) ? null : String(body);
    this.#attributes = { ...(attributes as Attributes) };
  }

  getType(): string {
    return this.#type;
  }

  /** Milliseconds since 1970. */
  getObservedTime(): number {
    return this.#observedTime;
  }

  getBody(): string | null {
    return this.#body;
  }

  getSource(): EventSource {
    return this.#source;
  }

  getAttributes(): Readonly<Record<string, string>> {
    return this.#attributes;
  }

  toString(): string {
    return `RengineEvent(type=${this.#type}, observedTime=${this.#observedTime}, body=${this.#body}, attributes=${JSON.stringify(this.#attributes)})`;
  }

  toJSON(): Record<string, unknown> {
    return { source: this.#source, type: this.#type, observedTime: this.#observedTime, body: this.#body, attributes: this.#attributes };
  }
}
